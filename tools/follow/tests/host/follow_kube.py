#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""flotilla-follow kube: EndpointSlices become nodes. The API server is a stand-in (lib/kube.py), no Kubernetes."""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from follow import FE, PROGRAM, Follower, kit, once, refused, write                 # noqa: E402
from kube import Kube, endpoint, slice_of                                       # noqa: E402
from kit import claim, equal                                                    # noqa: E402

TEMPORARY = tempfile.TemporaryDirectory()
DIR = TEMPORARY.name
SOURCE = "kube:web/flotilla"
BE1 = "node be1 address 10.0.0.2"
BE2 = "node be2 address 10.0.0.3"
ONE, TWO = endpoint("be1.example.org", "10.0.0.2"), endpoint("be2", "10.0.0.3")


def kube(*slices, **more):
    return Kube(DIR, *slices, **more)


def own_ca(path):
    """A certificate that has signed nothing."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=x", "-keyout", "/dev/null", "-out", path], check=True, capture_output=True)


@claim
def endpoints_come_change_and_go():
    with kube(slice_of("a", ONE)) as k:
        with Follower(SOURCE, "--every", "3600", *k.options) as f:
            f.wait_changes("+ " + BE1)
            k.set(slice_of("a", ONE, TWO))
            f.wait_changes("+ " + BE1, "+ " + BE2)
            k.set(slice_of("a", ONE), slice_of("b", endpoint("be2", "10.0.0.3", ready=False)))
            f.wait_changes("+ " + BE1, "+ " + BE2, "~ node be2 admin active -> drain")
            k.set(slice_of("b", TWO))
            kit.wait(lambda: len(f.changes()) == 5, 20)
            equal("last", sorted(f.changes()[3:]), ["- " + BE1, "~ node be2 admin drain -> active"])


@claim
def who_ends_or_is_not_ready_gets_nothing_new():
    for conditions, drains in (({"ready": True}, False), ({"ready": None}, False), ({"ready": False}, True),
                               ({"ready": False, "serving": True, "terminating": True}, True),
                               ({"ready": True, "terminating": True}, True)):
        with kube(slice_of("a", endpoint("be1", "10.0.0.2", **conditions))) as k:
            equal(str(conditions), once(SOURCE, *k.options), (0, "+ %s%s\n" % (BE1, " admin drain" if drains else "")))


@claim
def an_endpoint_in_two_slices_is_one_node():
    with kube(slice_of("a", ONE), slice_of("b", endpoint("be1.example.org", "10.0.0.2", ready=False)),
              slice_of("c", endpoint("be1.example.org", "2001:db8::2"), endpoint("be3", "2001:db8::3"), kind="IPv6"),
              slice_of("d", endpoint("be9", "name.example.org"), kind="FQDN")) as k:
        equal("said", once(SOURCE, *k.options), (0, "+ %s\n+ node be3 address 2001:db8::3\n" % BE1))
    with kube(slice_of("a", ONE), slice_of("b", endpoint("be1.example.net", "10.0.0.9"))) as k:
        refused(2, "flotilla: b: cannot use node be1: a node of that name is there already", once(SOURCE, *k.options))


@claim
def a_port_of_its_name_is_the_links():
    with kube(slice_of("a", ONE, ports=[("http", 80), ("flotilla", 9000)])) as k:
        equal("said", once(SOURCE, *k.options), (0, "+ %s port 9000\n" % BE1))


@claim
def a_version_that_is_too_old_is_asked_for_anew():
    with kube(slice_of("a", ONE)) as k:
        k.cut()
        k.version -= 50
        with Follower(SOURCE, "--every", "3600", *k.options) as f:
            f.wait_changes("+ " + BE1)
            k.version += 50
            k.set(slice_of("a", ONE, TWO))
            f.wait_changes("+ " + BE1, "+ " + BE2)


@claim
def a_watch_that_ends_begins_again():
    with kube(slice_of("a", ONE)) as k:
        k.longest = 1
        with Follower(SOURCE, "--every", "3600", *k.options) as f:
            f.wait_changes("+ " + BE1)
            kit.wait(lambda: k.watches == 2, 20)
            k.set(slice_of("a", ONE, TWO))
            f.wait_changes("+ " + BE1, "+ " + BE2)


@claim
def no_endpoints_are_not_no_nodes():
    with kube(slice_of("a", ONE)) as k:
        with Follower(SOURCE, *k.options) as f:
            f.wait_changes("+ " + BE1)
            k.set(slice_of("a"))
            f.wait_message("it names no node, so nothing is changed")
            k.set()
            time.sleep(3)
            equal("changes", f.changes(), ["+ " + BE1])


@claim
def a_token_that_changes_is_read_again():
    with kube(slice_of("a", ONE)) as k:
        with Follower(SOURCE, "--every", "1", *k.options) as f:
            f.wait_changes("+ " + BE1)
            k.token = "another"
            f.wait_message("it answers 401")
            write(DIR + "/token", "another\n")
            f.wait_message("is followed again")
            assert not any("secret" in m or "another" in m for m in f.messages()), f.messages()


@claim
def a_token_that_is_said_back_is_not_in_the_log():
    with kube(slice_of("a", ONE)) as k:
        k.get = lambda handler: Kube.say(handler, 400, {"message": "what is " + handler.headers["Authorization"]})
        for log in ("text", "json"):
            status, said = once(SOURCE, *k.options, log=log)
            equal(said, (status, "it answers 400" in said, k.token in said), (1, True, False))
        k.get = lambda handler: Kube.say(handler, 400, {"message": "no"})
        assert "it answers 400: " in once(SOURCE, *k.options)[1]


@claim
def a_token_goes_to_whom_it_is_for():
    with kube(slice_of("a", ONE)) as k:
        options = list(k.options)
        options[1] = options[1].replace("https", "http")
        status, said = once(SOURCE, *options)
        equal(said, (status, "a token goes by https only" in said), (1, True))
        own_ca(DIR + "/other")
        options = list(k.options)
        options[3] = DIR + "/other"
        status, said = once(SOURCE, *options)
        equal(said, (status, "certificate" in said, k.lists), (1, True, 0))
        options = list(k.options)
        options[1] = options[1].replace("127.0.0.1", "localhost")
        status, said = once(SOURCE, *options)
        equal("another name: %s" % said, (status, k.lists), (1, 0))


@claim
def who_is_named_is_believed_alone():
    """Not whom the system believes besides: here its directory has the server's own CA."""
    os.mkdir(DIR + "/certs")
    with kube(slice_of("a", ONE)) as k:
        name = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", DIR + "/ca"], check=True, text=True,
                              capture_output=True).stdout.strip()
        os.symlink(DIR + "/ca", "%s/certs/%s.0" % (DIR, name))
        own_ca(DIR + "/stranger")
        write(DIR + "/live", FE)

        def asked(*options):
            inside = "mount --bind %s/certs /etc/ssl/certs && exec \"$@\"" % DIR
            return subprocess.run(["unshare", "-rm", "sh", "-c", inside, "sh", *options], capture_output=True,
                                  timeout=60, check=False, text=True)

        if asked("true").returncode:
            raise kit.Skip("no mount namespaces here")
        follow = [PROGRAM, "--once", "--dry-run", "--against", DIR + "/live"]
        for ca, status in ((DIR + "/stranger", 1), (DIR + "/ca", 0)):
            run = asked(*follow, *k.options[:2], "--cacert", ca, *k.options[4:], SOURCE)
            equal("%s: %s" % (ca, run.stderr), (run.returncode, k.lists), (status, 1 - status))


@claim
def what_is_no_list_changes_nothing():
    for items in ([{"addressType": "IPv4", "endpoints": [{"addresses": [], "nodeName": "be1"}]}],
                  [{"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.2"]}]}],
                  [{"addressType": "IPv4", "endpoints": [{"addresses": "10.0.0.2", "nodeName": "be1"}]}],
                  [slice_of("a", endpoint("\x1b[2J", "10.0.0.2"))], [slice_of("\x1b[2J", endpoint("be 1", "10.0.0.2"))],
                  [slice_of("a", endpoint("", "10.0.0.2"))], [slice_of("a", endpoint("x" * 40, "10.0.0.2"))],
                  [1, None, "x"], [{"addressType": "IPv4", "endpoints": {"a": 1}}]):
        with kube(slice_of("a", ONE)) as k:
            k.slices = dict(enumerate(items))
            status, said = once(SOURCE, *k.options)
            equal("%s: %s" % (items, said), (status, "\x1b" in said), (2, False))
    for metadata in ({}, {"resourceVersion": "1&x=y"}, {"resourceVersion": "1", "continue": "more"}):
        with kube(slice_of("a", ONE)) as k:
            said = {"metadata": metadata, "items": [slice_of("a", ONE)]}
            k.get = lambda handler, said=said: Kube.say(handler, 200, said)
            equal(str(metadata), once(SOURCE, *k.options)[0], 2)


@claim
def outside_of_a_pod_it_says_so():
    run = subprocess.run([PROGRAM, "--once", "--dry-run", SOURCE], capture_output=True, timeout=20, check=False,
                         text=True, env={k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES")})
    equal("said", (run.returncode, run.stderr),
          (2, "flotilla-follow: this is no pod: KUBERNETES_SERVICE_HOST is not set (--api)\n"))


kit.main()
