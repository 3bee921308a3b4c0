#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes two minutes there
# timeout: 150
"""The module goes under load, again and again, and leaves nothing but connections that go on."""
import json
import os
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (DONE, TOP, VIP4, Cluster, accept, claim, main, peek, receive, rounds,  # noqa: E402
                 run, wait)
from servers import Site, installed                                                     # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", rounds(3, 1)))


def unload():
    return subprocess.run(("rmmod", "handoff"), check=False, stderr=subprocess.DEVNULL).returncode


def loaded():
    return os.path.isdir("/sys/module/handoff")


@claim
def it_is_refused_while_a_program_has_the_device():
    run("modprobe", "handoff")
    with open("/dev/handoff", "rb", buffering=0):
        assert unload() != 0
    assert unload() == 0
    run("modprobe", "handoff")


@claim
def adopted_connections_go_on_without_it():
    with Cluster(1) as c:
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        client = c.client.connect()
        client.sendall(b"GET")
        here = accept(front)
        peek(here, 3)
        dev.submit(here, c.fe.id["be1"])
        dev.expect(DONE)
        there = accept(back)
        dev.close()
        assert unload() == 0
        assert c.fe.nl.node("be1")["NODE_LOAD"] == 0, "what nobody forwards any more is no load"
        # Both ends are in this kernel, so forwarding ended too; what goes the direct way does not.
        assert receive(there, 3) == b"GET"
        there.sendall(b"answer")
        assert receive(client, 6) == b"answer"
        for thing in (there, client, here, front, back):
            thing.close()
        wait(lambda: not c.be[0].sockets() or "ESTAB" not in "".join(c.be[0].sockets()))
        run("modprobe", "handoff")


@claim
def under_load_it_goes_and_comes():
    with Cluster(2) as c:
        site = Site(c)
        for be, name in zip(c.be, installed("nginx", "lighttpd")):
            site.serve(be, name)
        for i in range(ROUNDS):
            site.dispatch(c.be)
            load = c.client.spawn(os.path.join(TOP, "build/tests/handoff-client"), VIP4, "80",
                                  site.root, "100000", "32", str(i), "50",
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            wait(lambda: site.report()["done"] > rounds(50, 20))
            # The dispatcher dies: what is under way is taken back, then the module can go.
            site.dispatcher.kill()
            site.dispatcher.wait()
            begin = time.monotonic()
            wait(lambda: unload() == 0 or not loaded())
            print("# round %d: unloaded in %.1f s" % (i, time.monotonic() - begin), flush=True)
            # A connection may have been reset; no client may have got a wrong byte.
            load.terminate()
            got = json.loads(load.communicate()[0])
            print("# clients: %s" % got, flush=True)
            assert load.returncode == 0 and got["ok"] and not got["wrong"], got
            run("modprobe", "handoff")
            wait(lambda: all(n["NODE_STATE"] == 2 for n in c.fe.nl.nodes()))
        # Who comes now is served as if nothing had been.
        site.dispatch(c.be)
        site.clients(rounds(50, 20), 8, ROUNDS)
        wait(lambda: site.report()["closed"] == site.report()["done"])
        assert site.report()["done"] == rounds(50, 20)
        site.stop()


if __name__ == "__main__":
    main()
