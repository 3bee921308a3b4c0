#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug it takes four minutes there
"""Bad input gets the right answer and changes nothing; messages are believed in nothing."""
import os
import random
import struct
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import (MIB, Disk, attach, disks, export, exports, hash_of, pair, read_error, refused,  # noqa: E402
                  run, stat, tool, wait)
from netns import SysfsView                            # noqa: E402
from peer import (ATTACH, ATTACHED, BLOCK, DATA, DETACH, DONE, EACCES, EINVAL, ENOENT,  # noqa: E402
                  EOPNOTSUPP, EPROTO, ESTALE, INDEX, READ, SAVE, WRITE, Fake, ask_attach, block)
from tap import claim, main                             # noqa: E402


@claim
def commands_that_make_no_sense_are_refused():
    with pair(size=MIB) as (c, disk):
        a, b = c.nodes
        before = exports(a)
        for text, words in (
                ("exists", ("export", "data", "device", disk.device, "nodes", "n2")),
                ("cannot open", ("export", "x", "device", "/dev/nonesuch", "nodes", "n2")),
                ("cannot open", ("export", "x", "device", "/etc/passwd", "nodes", "n2")),
                ("path is missing", ("export", "x", "nodes", "n2")),
                ("which nodes", ("export", "x", "device", disk.device)),
                ("twice", ("export", "x", "device", disk.device, "nodes", "n2,n2")),
                ("no such policy", ("export", "x", "device", disk.device, "nodes", "n2",
                                    "policy", "nonesuch")),
                ("cannot find", ("export", "x", "device", disk.device, "nodes", "n2",
                                 "mount", "/nonesuch")),
                ("not where this disk", ("export", "x", "device", disk.device, "nodes", "n2",
                                         "mount", "/tmp")),
                ("no such export", ("unexport", "x")),
                ("no such export", ("set", "x", "serve", "mix"))):
            refused(text, a, *words)
        assert exports(a) == before
        for text, words in (
                ("no such node", ("attach", "n9", "data")),
                ("refuses", ("attach", "n1", "nonesuch")),
                ("refuses", ("attach", "n1", "data", "write")),
                ("no such disk", ("detach", "card77")),
                ("no such disk", ("detach", "n1", "data"))):
            refused(text, b, *words)
        for words in (("attach", "n1", "data", "depth", "0"), ("attach", "n1", "data", "depth"),
                      ("attach", "n1", "data", "mode", "file"), ("attach", "n1"), ("detach",),
                      ("attach", "n1", "da/ta"), ("show", "nothing"), ("nothing",)):
            refused("", b, *words)
        assert not disks(b)


@claim
def a_disk_that_may_not_be_written_is_not_offered_for_writing():
    disk = Disk(MIB, name="ro")
    run("blockdev", "--setro", disk.device)
    with pair(size=MIB) as (c, _):
        refused("", c.nodes[0], "export", "x", "device", disk.device, "nodes", "n2", "write")
        export(c.nodes[0], "x", disk.device)
        assert hash_of("/dev/" + attach(c.nodes[1], "x")) == disk.hash()
        for name in list(disks(c.nodes[1])):
            tool(c.nodes[1], "detach", name)
        tool(c.nodes[0], "unexport", "x")
    run("blockdev", "--setrw", disk.device)         # or the next user of the loop device has it read-only
    disk.close()


@claim
def without_cap_sys_admin_nothing_is_given_or_taken():
    with pair(size=MIB) as (c, disk):
        for node, words in ((c.nodes[0], ["export", "x", "device", disk.device, "nodes", "n2"]),
                            (c.nodes[0], ["unexport", "data"]),
                            (c.nodes[1], ["attach", "n1", "data"])):
            done = subprocess.run(["ip", "netns", "exec", node.ns, "setpriv", "--bounding-set",
                                   "-sys_admin", "--inh-caps", "-sys_admin", "flotilla", "card",
                                   *words], capture_output=True, text=True, check=False)
            assert done.returncode == 1 and "CAP_SYS_ADMIN" in done.stderr, (words, done)
        assert list(exports(c.nodes[0])) == ["data"] and not disks(c.nodes[1])


@claim
def a_node_that_is_not_listed_cannot_even_tell_that_there_is_an_export():
    with pair(3, size=MIB, nodes="n2") as (c, _):
        stranger = c.nodes[2]
        refused("refuses", stranger, "attach", "n1", "data")
        refused("refuses", stranger, "attach", "n1", "nonesuch")
        assert stat(c.nodes[0], "CardDenied") == 2
        assert not disks(stranger)


@claim
def a_session_is_needed_and_addresses_must_be_right():
    with Fake() as f:
        assert f.peer.read(epoch=1, export_id=1) == ESTALE
        status, epoch, number, sectors = f.peer.attach()
        assert not status and sectors == f.disk.size // 512
        good = {"epoch": epoch, "export_id": number}
        for wrong, want in (({"epoch": epoch + 1}, ESTALE), ({"export_id": number + 1}, ESTALE),
                            ({"sector": sectors}, EINVAL), ({"sector": sectors - 1}, EINVAL),
                            ({"sector": 1 << 63}, EINVAL), ({"sector": (1 << 64) - 8}, EINVAL),
                            ({"size": 0}, EINVAL), ({"size": 511}, EINVAL),
                            ({"size": 0xfffffe00}, EINVAL), ({"size": 1 << 20}, EINVAL),
                            ({"flags": 0x8000}, EOPNOTSUPP), ({"op": 9}, EOPNOTSUPP),
                            ({"op": 2}, EINVAL), ({"op": 2, "size": 0}, EACCES)):
            assert f.peer.read(**{**good, **wrong}) == want, wrong
        data = f.peer.say(READ, block(**good)).answer(DATA)
        with open(f.disk.path, "rb") as image:
            assert data[64:] == image.read(4096)
        f.peer.say(DETACH, struct.pack(">QII", epoch, number, 0))
        assert f.peer.read(**good) == ESTALE


@claim
def writing_needs_to_be_offered_and_asked_for():
    with Fake() as f:
        assert f.peer.attach(flags=1)[0] == EACCES
        assert f.peer.attach(flags=2)[0] == EOPNOTSUPP
        assert f.peer.attach(flags=8)[0] == EINVAL
        assert f.peer.attach(version=1)[0] == EPROTO
        assert f.peer.attach(name="nonesuch")[0] == ENOENT
        _, epoch, number, _ = f.peer.attach()
        before = f.disk.hash()
        body = block(epoch=epoch, export_id=number, op=1) + bytes(4096)
        assert struct.unpack(BLOCK, f.peer.say(WRITE, body).answer(DONE))[8] == EACCES
        assert f.disk.hash() == before


@claim
def messages_that_no_node_sends_close_the_link():
    with Fake() as f:
        bad = [(ATTACH, b""), (ATTACH, ask_attach()[:-1]), (ATTACH, ask_attach(zero=1)),
               (ATTACH, ask_attach(name="x" * 32)), (ATTACHED, b"x" * 20), (DETACH, b"x"),
               (READ, b"x"), (READ, block()[:-1]), (READ, block() + b"x"), (READ, block(op=1)),
               (READ, block(flags=4)), (DATA, b"x" * 10), (DATA, block(gen=3) + b"x"),
               (DONE, block() + b"x"), (DONE, block(gen=1)), (WRITE, block() + b"x" * 4096),
               (WRITE, block(op=1, size=4096) + b"x"), (SAVE, b"x"), (INDEX, b"x"), (0x2f, b"")]
        for kind, body in bad:
            f.peer.say(kind, body)
            f.peer.gone()
            f.peer.close()
            # Who misbehaves is not heard for a while.
            f.exporter.nl.do("NODE_DEL", node_name="n1")
            f.exporter.list(f.c.nodes[0])
            f.peer.data = b""
            f.peer.greet()
        assert f.peer.attach()[0] == 0


@claim
def answers_to_nothing_are_dropped():
    with Fake() as f:
        f.peer.say(DONE, block(disk=5)).say(DATA, block(disk=5) + bytes(4096))
        f.peer.say(ATTACHED, struct.pack(">IIII", 5, 5, 0, 0) + bytes(136))
        wait(lambda: stat(f.exporter, "CardLateReplies") == 3, 30)
        assert f.peer.attach()[0] == 0


@claim
def random_messages_do_no_harm():
    seed = int(os.environ.get("CARD_SEED", "5"))
    rounds = int(os.environ.get("CARD_ROUNDS", "40"))
    print("# seed %d, %d rounds" % (seed, rounds))
    rnd = random.Random(seed)
    with Fake() as f:
        before = f.disk.hash()
        for _ in range(rounds):
            _, epoch, number, _ = f.peer.attach()
            for _ in range(rnd.randint(1, 8)):
                kind = rnd.choice((ATTACH, ATTACHED, DETACH, READ, DATA, DONE, WRITE, SAVE, INDEX))
                body = bytearray(block(epoch=epoch, export_id=number, gen=rnd.randrange(0, 64, 4)) +
                                 rnd.randbytes(rnd.choice((0, 0, 24, 512, 4096))))
                for _ in range(rnd.randint(0, 3)):
                    body[rnd.randrange(len(body))] = rnd.randrange(256)
                f.peer.say(kind, bytes(body))
            f.peer.close()
            f.exporter.nl.do("NODE_DEL", node_name="n1")
            f.exporter.list(f.c.nodes[0])
            f.peer.data = b""
            f.peer.greet()
        assert f.disk.hash() == before
        assert f.peer.attach()[0] == 0


@claim
def reads_past_the_end_and_out_of_line_fail_here():
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data")
        assert read_error(card, at=disk.size + 4096)[0] == 0    # nothing there
        assert read_error(card, at=100)[0] == EINVAL
        assert stat(c.nodes[0], "CardBadRange") == 0


def written(path, value, *options):
    """What is in the file once somebody has written to it, and what he was told."""
    done = subprocess.run(("setpriv",) + options + ("tee", path), input=value.encode(), stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    with open(path, encoding="ascii") as f:
        return f.read(), done.stderr


@claim
def root_without_sys_admin_may_not_write_attributes():
    """Root of a container owns the files; the capability decides, as for commands."""
    try:
        with pair(size=MIB, words=("policy", "hscc")) as (c, _):
            where = os.path.join(SysfsView.of(c.nodes[0].ns).path, "class/card/export.data")
            for name, value in (("class_limits", "1 2 3"), ("class_action", "disk disk coop coop"), ("evict", "1"),
                                ("depth", "3")):
                path = os.path.join(where, name)
                with open(path, encoding="ascii") as f:
                    before = f.read()
                now, said = written(path, value, "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
                assert now == before and b"not permitted" in said, (name, now, said)
                assert written(path, value) == (value + "\n", b""), name
    finally:
        subprocess.run(("rmmod", "card_hscc"), check=False)


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    try:
        main()
    finally:
        run("rmmod", "card")
