#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""flotilla-follow file: the table follows a file, whoever writes it how, and only as far as a source may say."""
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from follow import FE, HOSTILE, PROGRAM, TOP, Follower, kit, once, refused, write    # noqa: E402
from kit import claim, equal                                                    # noqa: E402

TEMPORARY = tempfile.TemporaryDirectory()
DIR = TEMPORARY.name
SRC = os.path.join(DIR, "nodes")
BE1 = "node be1 address 10.0.0.2"
BE2 = "node be2 address 10.0.0.3"


def source(text):
    write(SRC, text)
    return "file:" + SRC


@claim
def nodes_come_change_and_go():
    with Follower(source(BE1 + "\n")) as f:
        f.wait_changes("+ " + BE1)
        write(SRC, BE1 + " weight 50\n" + BE2 + "\n")
        f.wait_changes("+ " + BE1, "~ node be1 weight 100 -> 50", "+ " + BE2)
        write(SRC, '{"nodes": [{"name": "be2", "address": "10.0.0.3"}]}')
        f.wait_changes("+ " + BE1, "~ node be1 weight 100 -> 50", "+ " + BE2, "- node be1 address 10.0.0.2 weight 50")


@claim
def a_file_that_is_written_in_place_is_followed():
    with Follower(source(BE1 + "\n")) as f:
        f.wait_changes("+ " + BE1)
        with open(SRC, "a", encoding="utf-8") as out:
            out.write(BE2 + "\n")
        f.wait_changes("+ " + BE1, "+ " + BE2)


@claim
def a_mounted_configmap_is_followed():
    mount = os.path.join(DIR, "mount")
    os.makedirs(mount + "/..one")
    write(mount + "/..one/nodes", BE1 + "\n")
    os.symlink("..one", mount + "/..data")
    os.symlink("..data/nodes", mount + "/nodes")
    with Follower("file:%s/nodes" % mount, "--every", "3600") as f:
        f.wait_changes("+ " + BE1)
        for name, text in (("..two", BE2), ("..three", BE1)):
            os.mkdir("%s/%s" % (mount, name))
            write("%s/%s/nodes" % (mount, name), text + "\n")
            os.symlink(name, mount + "/..data_tmp")
            os.rename(mount + "/..data_tmp", mount + "/..data")
            kit.wait(lambda text=text: f.changes()[-2:] and "+ " + text in f.changes()[-2:], 20, name=name)
    equal("changes", len(f.changes()), 5)


@claim
def a_link_to_elsewhere_is_followed():
    os.mkdir(DIR + "/elsewhere")
    write(DIR + "/elsewhere/n", BE1 + "\n")
    os.symlink(DIR + "/elsewhere/n", DIR + "/link")
    with Follower("file:%s/link" % DIR, "--every", "3600") as f:
        f.wait_changes("+ " + BE1)
        write(DIR + "/elsewhere/n", BE1 + "\n" + BE2 + "\n")
        f.wait_changes("+ " + BE1, "+ " + BE2)


@claim
def an_empty_source_changes_nothing_and_says_so():
    with Follower(source(BE1 + "\n")) as f:
        f.wait_changes("+ " + BE1)
        write(SRC, "# nothing\n")
        f.wait_message("it names no node, so nothing is changed (--allow-empty)")
        write(SRC, BE1 + "\n")
        f.wait_message("is followed again")
        f.wait_changes("+ " + BE1)


@claim
def unless_it_means_it():
    with Follower(source(BE1 + "\n"), "--allow-empty") as f:
        f.wait_changes("+ " + BE1)
        write(SRC, "\n")
        f.wait_changes("+ " + BE1, "- " + BE1)


@claim
def a_file_that_is_gone_changes_nothing_and_is_said_once():
    with Follower(source(BE1 + "\n"), "--every", "1") as f:
        f.wait_changes("+ " + BE1)
        os.unlink(SRC)
        f.wait_message("cannot read %s: No such file or directory" % SRC)
        f.wait_message("nodes stay as they are")
        time.sleep(5)
        equal("said", len(f.messages()), 2)
        write(SRC, BE2 + "\n")
        f.wait_changes("+ " + BE1, "- " + BE1, "+ " + BE2)


@claim
def the_status_says_how_it_was():
    equal("there is none", once("file:%s/none" % DIR)[0], 1)
    equal("it is wrong", once(source("node be1\n"))[0], 2)
    equal("it is done", once(source(BE1 + "\n")), (0, "+ %s\n" % BE1))


@claim
def one_wrong_entry_refuses_the_whole_by_name():
    for line, why in (("node be2 address 10.0.0.300", "address 10.0.0.300 is not an address"),
                      ("node be2 address 224.0.0.1", "224.0.0.1 is not the address of one host"),
                      ("node be2 address 10.0.0.2", "node be1 has that address"),
                      ("node be2 address 10.0.0.3 weight 65536", "weight 65536 is not between 0 and 65535"),
                      ("node be2 address 10.0.0.3 port 0", "port 0 is not between 1 and 65535"),
                      ("node fe address 10.0.0.3", "that is the name of this node itself")):
        name = line.split()[1]
        refused(2, "%s:2: cannot use node %s: %s" % (SRC, name, why), once(source(BE1 + "\n" + line + "\n")))


@claim
def a_source_says_nodes_and_of_them_only_what_it_may():
    for line in ("local name x address 10.0.0.7", "service 10.0.0.80", "policy lard/r", "sysctl forward_max 1",
                 "migrate 10.0.0.80:80 stay", "redirect 10.0.0.80:80",
                 "export e device /dev/sda nodes be1"):
        refused(2, "%s: a source has nodes and nothing else" % SRC, once(source(BE1 + "\n" + line + "\n")))
    for words, what, how in (("auth x509", "auth", "--set"), ("auth psk key /etc/shadow", "auth", "--set"),
                             ("auth none", "auth", "--set"), ("role frontend", "role", "--allow"),
                             ("forward ipip", "forward", "--allow"),
                             ("forward-address 10.0.0.9", "forward-address", "--allow")):
        refused(2, "%s:1: cannot use node be1: %s is not for this source to say (%s)" % (SRC, what, how),
                once(source("%s %s\n" % (BE1, words))))
    equal("what is allowed", once(source(BE1 + " role frontend forward ipip\n"), "--allow", "role,forward"),
          (0, "+ %s role frontend forward ipip\n" % BE1))
    equal("auth is not", once(source(BE1 + "\n"), "--allow", "auth")[0], 2)


@claim
def addresses_have_a_range():
    options = "--within", "10.0.0.0/30", "--within", "2001:db8::/33"
    for address, good in (("10.0.0.3", True), ("10.0.0.4", False), ("2001:db8:7fff::1", True),
                          ("2001:db8:8000::1", False)):
        status, said = once(source("node be1 address %s\n" % address), *options)
        equal(said, status, 0 if good else 2)
        assert good or "%s is not within what --within allows" % address in said, said
    equal("and what is no range", [once(source(BE1 + "\n"), "--within", r)[0]
                                   for r in ("10.0.0.0", "10.0.0.0/33", "x/8", "::/129")], [2] * 4)


@claim
def so_many_nodes_and_no_more():
    many = "".join("node n%d address 10.1.%d.%d\n" % (i, i >> 8, i & 255) for i in range(256, 514))
    refused(2, "%s:257: cannot use a node: there are more than 256 of them (--max)" % SRC, once(source(many)))
    equal("if asked for", once(source(many), "--max", "300")[0], 0)


@claim
def what_it_does_not_say_is_set_or_stays():
    with Follower(source(BE1 + "\n"), "--set", "auth x509 weight 30") as f:
        f.wait_changes("+ %s weight 30 auth x509" % BE1)
        write(SRC, BE1 + " weight 40 admin drain\n")
        f.wait_changes("+ %s weight 30 auth x509" % BE1, "~ node be1 weight 30 -> 40, admin active -> drain")
        write(SRC, BE1 + " weight 41\n")
        kit.wait(lambda: len(f.changes()) == 3, 20)
        equal("it drains on", f.changes()[2], "~ node be1 weight 40 -> 41")


@claim
def what_others_have_added_stays_as_it_is():
    table = FE + "node old address 10.0.0.9\nnode be1 address 10.0.0.2 weight 7\n"
    with Follower(source("node be1 address 10.0.0.77\n" + BE2 + "\n"), table=table) as f:
        f.wait_changes("+ " + BE2)
        f.wait_message("node be1 was not added for this source: it stays as it is")
        write(SRC, "node be3 address 10.0.0.4\n")
        f.wait_changes("+ " + BE2, "- " + BE2, "+ node be3 address 10.0.0.4")
    status, said = once(source("node be2 address 10.0.0.9\n"), table=table)
    equal("their addresses, too", (status, said),
          (2, "%s:1: cannot use node be2: node old has that address\n" % SRC))


@claim
def unless_they_are_adopted():
    table = FE + "node old address 10.0.0.9\nnode be1 address 10.0.0.2 weight 7\n"
    with Follower(source(BE1 + " weight 8\n"), "--adopt", table=table) as f:
        f.wait_changes("~ node be1 weight 7 -> 8")
        write(SRC, BE2 + "\n")
        f.wait_changes("~ node be1 weight 7 -> 8", "- %s weight 8" % BE1, "+ " + BE2)


@claim
def what_is_its_own_outlives_the_program():
    state = DIR + "/state"
    table = FE + BE1 + "\n" + BE2 + "\n"
    write(state, "be1 0 10.0.0.2 7654\nbe2 0 10.0.0.33 7654\n")
    port = subprocess.run(["grep", "-rhoP", r"FLT_LINK_PORT\s+\K\d+",
                           os.path.join(TOP, "kmod/uapi/flotilla/flotilla.h")],
                          capture_output=True, text=True, check=True).stdout.strip()
    write(state, "be1 0 10.0.0.2 %s\nbe2 0 10.0.0.33 %s\n" % (port, port))
    equal("be1 was its own; be2 had another address", once(source("node be3 address 10.0.0.4\n"), "--state", state,
                                                           table=table),
          (0, "+ node be3 address 10.0.0.4\n- %s\n" % BE1))
    write(state, "be1 5 10.0.0.2 %s\n" % port)
    equal("another number is another's node",
          once(source("node be3 address 10.0.0.4\n"), "--state", state, table=table),
          (0, "+ node be3 address 10.0.0.4\n"))
    write(state, "\x1b[2J\n")
    status, said = once(source(BE1 + "\n"), "--state", state)
    equal("what it did not write", (status, "is not what this program writes there" in said, "\x1b" in said),
          (1, True, False))


@claim
def each_source_has_a_state_of_its_own():
    """What it is called is seen of the locks; their directory is one that nobody else sees."""
    sources = ["/a/b", "/a-b", "/a/b.new", "/a/b.lock", "/" + "x" * 250 + "1", "/" + "x" * 250 + "2"]
    inside = ("mount -t tmpfs none /run && mkdir /run/flotilla && cd /run/flotilla || exit 4; p=$1; shift; "
              "for s; do \"$p\" --once \"file:$s\"; done 2>/dev/null; ls")
    run = subprocess.run(["unshare", "-rm", "sh", "-c", inside, "sh", PROGRAM, *sources], capture_output=True,
                         timeout=60, check=False, text=True)
    if run.returncode:
        raise kit.Skip("no mount namespaces here")
    states = [name[:-len(".lock")] for name in run.stdout.split()]
    equal("states of %d sources: %s" % (len(sources), states), len(states), len(sources))
    equal("taken for another's lock, or for what is about to be one",
          [s for s in states if s.endswith((".lock", ".new"))], [])


@claim
def this_node_itself_is_left_out():
    equal("by its address", once(source("node fe address 10.0.0.1\n" + BE1 + "\n")), (0, "+ %s\n" % BE1))
    equal("under any name", once(source("node fe-0 address 10.0.0.1\n" + BE1 + "\n")), (0, "+ %s\n" % BE1))
    equal("alone it is not nothing", once(source("node fe address 10.0.0.1\n")), (0, ""))


@claim
def a_flood_is_coalesced():
    with Follower(source(BE1 + "\n")) as f:
        f.wait_changes("+ " + BE1)
        end = time.monotonic() + 4
        number = 0
        while time.monotonic() < end:
            number += 1
            write(SRC, "%s weight %d\n" % (BE1, 200 + number % 1000))
        write(SRC, BE1 + " weight 9\n")
        kit.wait(lambda: f.changes()[-1].endswith("-> 9"), 20)
        assert number > 100 and len(f.changes()) <= 9, (number, f.changes())


@claim
def what_has_no_end_or_does_not_come_is_no_file():
    os.mkfifo(DIR + "/fifo")
    refused(1, "cannot read %s/fifo: it is not a regular file" % DIR, once("file:%s/fifo" % DIR))
    refused(1, "cannot read /dev/zero: it is not a regular file", once("file:/dev/zero"))
    refused(1, "cannot read %s: it is not a regular file" % DIR, once("file:" + DIR))
    with open(DIR + "/huge", "wb") as f:
        f.truncate(1 << 40)
    refused(1, "cannot read %s/huge: it is longer than 1048576 bytes" % DIR, once("file:%s/huge" % DIR))
    with open(DIR + "/zero", "wb") as f:
        f.write(b"node be1\0address")
    refused(1, "cannot read %s/zero: a byte of it is zero" % DIR, once("file:%s/zero" % DIR))
    os.symlink("loop", DIR + "/loop")
    equal("nor a link to itself", once("file:%s/loop" % DIR)[0], 1)


@claim
def who_may_be_anybody_is_not_believed():
    source(BE1 + "\n")
    os.chmod(SRC, 0o666)
    refused(1, "cannot read %s: everybody may write it" % SRC, once("file:" + SRC))


@claim
def where_anybody_may_put_a_file_none_is_believed():
    for mode in (0o777, 0o1777):
        os.makedirs(DIR + "/anybodys", exist_ok=True)
        write(DIR + "/anybodys/n", BE1 + "\n")
        if not os.path.lexists(DIR + "/of-anybody"):
            os.symlink(DIR + "/anybodys/n", DIR + "/of-anybody")
        os.chmod(DIR + "/anybodys", mode)
        for name in ("anybodys/n", "of-anybody"):
            refused(1, "cannot read %s/%s: everybody may put another one in its place" % (DIR, name),
                    once("file:%s/%s" % (DIR, name)))
    write(DIR + "/live", FE)
    inside = "mount --bind $0 $0 && mount -o remount,bind,ro $0 && exec \"$@\""
    run = subprocess.run(["unshare", "-rm", "sh", "-c", inside, DIR + "/anybodys", PROGRAM, "--once", "--dry-run",
                          "--against", DIR + "/live", "file:%s/anybodys/n" % DIR],
                         capture_output=True, timeout=20, check=False, text=True)
    if "mount" not in run.stderr and "unshare" not in run.stderr:
        equal("where nobody may, after all, as in a ConfigMap", (run.returncode, run.stderr),
              (0, "flotilla-follow: + %s: would be\n" % BE1))
    os.chmod(DIR + "/anybodys", 0o775)
    equal("its own", once("file:%s/of-anybody" % DIR), (0, "+ %s\n" % BE1))


@claim
def half_a_file_is_none():
    status, said = once(source(BE1 + "\nnode be2 address 10.0.0.1"))
    equal(said, (status, "the last line has no end" in said), (2, True))
    equal("nor half an object", once(source('{"nodes": [{"name": "be1", "address": "10.0.'))[0], 2)
    equal("nor one of great depth", once(source('{"nodes":' + "[" * 500000))[0], 2)


@claim
def a_terminal_obeys_nobody():
    for text in ("node be%s address 10.0.0.2\n" % HOSTILE,
                 '{"nodes": [{"name": "a\\u001b[2J", "address": "10.0.0.2"}]}',
                 '{"\\u001b[2J": 1}'):
        for log in ("text", "json"):
            status, said = once(source(text), log=log)
            equal(said, (status, "\x1b" in said, said.count("\n")), (2, False, 1))
    said = once(source("node %s address 10.0.0.2\n" % ("x" * 100000)))[1]
    assert len(said) < 700, len(said)


@claim
def who_does_not_read_its_log_holds_up_nobody():
    """Changes are made under the lock that apply waits for, and signals wait meanwhile: neither for a reader."""
    source("".join("node n%d address 10.1.0.%d\n" % (i, i) for i in range(1, 200)))
    write(DIR + "/live", FE)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen([PROGRAM, "--dry-run", "--against", DIR + "/live", "file:" + SRC], stderr=writer) as process:
        try:
            kit.wait(lambda: not select.select([], [writer], [], 0)[1], name="the log is full")
            time.sleep(1)
            equal("it waits", process.poll(), None)
            process.terminate()
            equal("until it is told to end", process.wait(10), -signal.SIGTERM)
        finally:
            process.kill()
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as log:
        first = log.read().split("\n")[:20]
    equal("what was read", first, ["flotilla-follow: + node n%d address 10.1.0.%d: would be" % (i, i)
                                   for i in range(1, 21)])


@claim
def the_command_line_is_judged_before_anything_is_read():
    for arguments in ([], ["a", "b"], ["ftp:x"], ["file:relative"], ["--nope", "file:/x"],
                      ["--against", "/x", "file:/x"], ["--every", "0", "file:/x"], ["--max", "x", "file:/x"],
                      ["--set", "address 10.0.0.1", "file:/x"],
                      ["--set", "weight", "file:/x"], ["--log", "xml", "file:/x"], ["etcd:ftp://x/y"],
                      ["etcd:http://user:word@10.0.0.1/y"], ["etcd:http://10.0.0.1"], ["kube:A/b"], ["kube:a"],
                      ["kube:a/b?c"], ["dns:a b"], ["dns:a@x"]):
        dry = [] if "--against" in arguments else ["--dry-run"]
        run = subprocess.run([PROGRAM, *dry, *arguments], capture_output=True, timeout=20, check=False, text=True)
        equal("%s: %s" % (arguments, run.stderr), run.returncode, 2)


kit.main()
