#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug some minutes
"""What packets make, before there is a process that could pay, is charged to who has asked for it."""
import os
import select
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from early import Early, answers, over                  # noqa: E402
from early_table import Told                            # noqa: E402
from hof import PATIENCE, VIP4, accept, claim, main, rounds, usable, wait     # noqa: E402
from cgroup import Cgroup                               # noqa: E402
from policed import Nodes, get                          # noqa: E402
from redirected import Redirecting                      # noqa: E402
from syns import Raw                                    # noqa: E402

SYN = 2
COUNT = rounds(300, 150)
# An entry is more than this, and a ticket, and a gate.
ENTRY, TICKET, GATE = 120, 60, 150
ACCEPT4 = "288"


def kernel(group):
    return group.numbers("memory.stat")["kernel"]


def is_charged(group, before, number):
    """The kernel sums up now and then."""
    wait(lambda: kernel(group) - before > number, name="%d bytes are charged" % number)


def settled(group):
    """What is charged when nothing more comes or goes; the kernel sums up each two seconds."""
    before, now = -1, kernel(group)
    while now != before:
        time.sleep(3)
        before, now = now, kernel(group)
    return now


def fill(group):
    """What it has is all that it may have; each CPU has had some in advance, and gives that back for another group."""
    with Cgroup("memory", "other") as other:
        for cpu in os.sched_getaffinity(0):
            subprocess.run(other.command("taskset", "-c", str(cpu), "sh", "-c", ":"), check=True)
    group.write("memory.max", group.number("memory.current"))


def begin(c):
    """A connection that stays: (the index of its back-end, or -1 for the listener; the client; the server)."""
    client = c.ask()
    index, there = c.where()
    return index, client, there


def pays(c, group, each):
    """Who has asked for it pays for each connection, and without memory the listener has the next one."""
    before = kernel(group)
    kept = [begin(c) for _ in range(COUNT)]
    assert all(index >= 0 for index, _, _ in kept), c.fe.stats()
    is_charged(group, before, COUNT * each)
    fill(group)
    for number in range(100):
        kept.append(begin(c))
        if kept[-1][0] < 0:
            break
    print("# the listener has number %d" % number)
    assert kept[-1][0] < 0 and c.count("Left") == 1, c.fe.stats()
    answers(*kept[-1][1:])
    over(*kept.pop()[1:])
    group.write("memory.max", "max")
    kept.append(begin(c))
    assert kept[-1][0] >= 0, c.fe.stats()
    answers(*kept[-1][1:])
    for _, client, there in kept:
        client.close()
        there.close()


@claim
def a_flood_is_charged_to_who_has_set_the_rule():
    """And has the end there that any memory has; who is not redirected then is accepted here."""
    with Cgroup("memory") as group, Redirecting() as c:
        here, raw = c.be[0], Raw(c.client)
        with group.member():
            c.loaded(hint=1 << 30)
        here.sysctl("net.flotilla.redirect_syn_max", 1 << 20)
        here.sysctl("net.flotilla.redirect_max", 1 << 20)
        here.sysctl("net.flotilla.redirect_syn_ms", 60000)

        def floods(net, most):
            for number in range(most):
                raw.send("10.9.%d.%d" % (net + number // 250, number % 250 + 1), VIP4, SYN, 2000)
                if number % 1000 == 999 and here.stat("RedirectFull"):
                    break
        before = kernel(group)
        floods(100, 2000)
        wait(lambda: here.stat("RedirectUnopened") == 2000)
        is_charged(group, before, 2000 * ENTRY)
        group.write("memory.max", group.number("memory.current") + (256 << 10))
        floods(120, 20000)
        print("# %d entries more in 256 KiB" % (here.stat("RedirectUnopened") - 2000))
        assert here.stat("RedirectFull") and here.stat("RedirectUnopened") < 10000
        # Here, or there if entries have come to their end meanwhile, as on a slow machine.
        client = c.connect()
        usable(client, c.accepted(c.listeners.index(select.select(c.listeners, [], [], PATIENCE)[0][0])))
        group.write("memory.max", "max")
        usable(c.connect(), c.accepted(1))
        raw.close()


@claim
def an_early_handoff_is_charged_to_who_has_asked_for_it():
    with Cgroup("memory") as group, Early(1, begun=False) as c:
        with group.member():
            c.begin()
        pays(c, group, ENTRY)


@claim
def so_is_one_that_a_table_has_chosen():
    with Cgroup("memory") as group, Told(1) as c:
        c.table.set(limit=1 << 20)
        c.table.set(slot=0, low=1 << 20, high=1 << 20, cap=1 << 20)
        c.says("flotilla/one", 1)
        with group.member():
            c.begin()
        pays(c, group, ENTRY + TICKET)
        assert c.told("Hits") > COUNT, c.fe.stats()


def accepting():
    """How many threads of this process sleep in accept4()."""
    number = 0
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/syscall" % task, encoding="ascii") as file:
            number += file.read().split()[0] == ACCEPT4
    return number


@claim
def a_server_pays_for_the_gates_of_its_connections():
    """Their first bytes make them, of those whose accept() had begun before there was a policy."""
    number, served, over = COUNT // 2, [], threading.Event()

    def serve(listener):
        served.append(accept(listener))
        over.wait()         # else its stack is given back while others are counted

    with Cgroup("memory") as group, Nodes(1) as n:
        n.listeners[0].settimeout(None)
        threads = [threading.Thread(target=serve, args=(n.listeners[0],), daemon=True) for _ in range(number)]
        with group.member():
            for thread in threads:
                thread.start()
            wait(lambda: accepting() == number)
            n.policy("hash", "self")
            clients = [n.connect() for _ in threads]
            wait(lambda: len(served) == number)
        before = settled(group)
        for client in clients:
            client.sendall(get("/a")[:6])
        is_charged(group, before, number * GATE)
        over.set()
        for thread in threads:
            thread.join()
        for sock in served:
            sock.close()


if __name__ == "__main__":
    main()
