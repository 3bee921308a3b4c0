#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# kernel: stock
# The debug kernel is built without nvme-keyring, where tlshd has its keys from.
"""Links that authenticate by the system's own tlshd: certificates and shared keys, right and wrong ones."""
import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import UP, cluster                         # noqa: E402
from fltnl import E                                     # noqa: E402
from netns import run                                   # noqa: E402
from patience import PATIENCE, rounds                   # noqa: E402
from tap import Skip, claim, main, wait                       # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
PSK, X509 = E["FLT_AUTH_PSK"], E["FLT_AUTH_X509"]
SYS_ADD_KEY, SYS_KEYCTL = 248, 250
USER_KEYRING, KEYCTL_JOIN_SESSION_KEYRING, KEYCTL_SETPERM = -4, 1, 5
# tlshd links one into its session; so it must be its user's to find and to link.
KEYRING, OTHERS, KEYRING_PERM = "flotilla", "flotilla-others", 0x3f3f0000
TLSHD = shutil.which("tlshd", path="/usr/sbin:/sbin:/usr/bin")
PLACE = tempfile.mkdtemp()


def openssl(*words):
    """In the place of the certificates, quiet unless it fails."""
    done = subprocess.run(("openssl",) + words, cwd=PLACE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def authority(name):
    """A certificate that may sign others."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", "/CN=" + name, "-keyout", name + ".key", "-out", name + ".crt")


def certificate(name, signer, host):
    """One for HOST, kept under NAME."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + host,
            "-keyout", name + ".key", "-out", name + ".csr")
    with open(os.path.join(PLACE, name + ".ext"), "w", encoding="ascii") as f:
        f.write("subjectAltName=DNS:%s\n" % host)
    openssl("x509", "-req", "-in", name + ".csr", "-CA", signer + ".crt", "-CAkey", signer + ".key",
            "-CAcreateserial", "-days", "30", "-extfile", name + ".ext", "-out", name + ".crt")


def own_session():
    """Its keys are those of its keyring, as on a machine of its own."""
    LIBC.syscall(SYS_KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None)


class Agent:
    """The system's tlshd, in a namespace, with a certificate."""

    def __init__(self, ns, cert, ring):
        path = os.path.join(PLACE, ns + ".conf")
        files = "x509.truststore=%s/trusted.crt\nx509.certificate=%s/%s.crt\nx509.private_key=%s/%s.key\n" % (
            PLACE, PLACE, cert, PLACE, cert)
        with open(path, "w", encoding="ascii") as f:
            f.write("[debug]\nloglevel=1\n[authenticate]\nkeyrings=%s\n[authenticate.client]\n%s"
                    "[authenticate.server]\n%s" % (ring, files, files))
        for name in (cert + ".key", cert + ".crt"):
            os.chmod(os.path.join(PLACE, name), 0o600)
        self.said = os.path.join(PLACE, ns + ".log")
        self.log = open(self.said, "wb")
        self.process = subprocess.Popen(["ip", "netns", "exec", ns, TLSHD, "-s", "-c", path],
                                        stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=own_session)

    def lines(self):
        with open(self.said, encoding="utf-8", errors="replace") as f:
            return f.read().splitlines()

    def has_shaken(self):
        return any("Handshake " in line for line in self.lines())

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


@contextlib.contextmanager
def agents(c, *certs, rings=(KEYRING, KEYRING)):
    running = [Agent(node.ns, cert, ring) for node, cert, ring in zip(c.nodes, certs, rings)]
    try:
        yield running
    except Exception:
        for node, agent in zip(c.nodes, running):
            for line in agent.lines():
                print("# tlshd of %s: %s" % (node.name, line))
        raise
    finally:
        for agent in running:
            agent.stop()


def configure(c, *auth):
    a, b = c.nodes
    a.become()
    b.become()
    a.list(b, **auth[0])
    b.list(a, **auth[-1])


def carries_messages(c):
    """Both ways, each message whole and in order."""
    a, b = c.nodes
    small, large = rounds(1000, 100), rounds(10, 3)
    a.test("storm %s %d 9000" % (b.name, small))
    b.test("storm %s %d 1000000" % (a.name, large))
    wait(lambda: b.numbers()["received"] == small, 2 * PATIENCE)
    wait(lambda: a.numbers()["received"] == large, 2 * PATIENCE)
    for node in c.nodes:
        n = node.numbers()
        assert n["disorder"] == n["corrupt"] == 0, n


def never_up(c, running):
    a, b = c.nodes

    def failures():
        return a.nl.stat("LinkAuthFailed") + b.nl.stat("LinkAuthFailed")

    # An attempt that began before both agents did fails whatever they know: two more than those.
    wait(lambda: all(agent.has_shaken() for agent in running), 2 * PATIENCE)
    before = failures()
    wait(lambda: failures() >= before + 4, 2 * PATIENCE)
    wait(lambda: any("authentication failed" in one.nl.node(other.name).get("NODE_REASON", "")
                     for one, other in ((a, b), (b, a))))
    assert a.state(b) != UP and b.state(a) != UP
    assert a.nl.stat("LinkUp") == b.nl.stat("LinkUp") == 0


@claim
def certificates_of_one_authority_bring_the_link_up():
    with cluster(listed=False) as c, agents(c, "n1", "n2"):
        configure(c, {"node_auth": X509})
        c.wait_up()
        carries_messages(c)


@claim
def certificate_of_another_authority_does_not():
    with cluster(listed=False) as c, agents(c, "n1", "stranger") as running:
        configure(c, {"node_auth": X509})
        never_up(c, running)


@claim
def certificate_for_another_node_does_not():
    # n1 connects; n2's is good, but for n9.
    with cluster(listed=False) as c, agents(c, "n1", "n9") as running:
        configure(c, {"node_auth": X509})
        never_up(c, running)


def key_call(*words):
    value = LIBC.syscall(*words)
    assert value >= 0, os.strerror(ctypes.get_errno())
    return value


def keyring(name):
    ring = key_call(SYS_ADD_KEY, b"keyring", name.encode(), None, 0, USER_KEYRING)
    key_call(SYS_KEYCTL, KEYCTL_SETPERM, ring, KEYRING_PERM)
    return ring


def add_key(name, data, ring=None):
    if not PSK_KEYS:
        raise Skip("this kernel knows no keys of the type psk (nvme-keyring)")
    return key_call(SYS_ADD_KEY, b"psk", name.encode(), data, len(data), ring or RING)


@claim
def shared_key_brings_the_link_up():
    key = add_key("flotilla-test", bytes(range(32)))
    with cluster(listed=False) as c, agents(c, "n1", "n2"):
        configure(c, {"node_auth": PSK, "node_key": key})
        c.wait_up()
        carries_messages(c)


@claim
def another_key_of_the_same_name_does_not():
    mine = add_key("flotilla-test", bytes(range(32)))
    theirs = add_key("flotilla-test", bytes(range(1, 33)), keyring(OTHERS))
    with cluster(listed=False) as c, agents(c, "n1", "n2", rings=(KEYRING, OTHERS)) as running:
        configure(c, {"node_auth": PSK, "node_key": mine}, {"node_auth": PSK, "node_key": theirs})
        never_up(c, running)


@claim
def another_key_that_both_have_does_not():
    # tlshd is content with it; n2, who is connected to, wants the one that it was told.
    one, two = (add_key("flotilla-" + name, bytes(range(32))) for name in ("one", "two"))
    with cluster(listed=False) as c, agents(c, "n1", "n2") as running:
        configure(c, {"node_auth": PSK, "node_key": one}, {"node_auth": PSK, "node_key": two})
        never_up(c, running)


@claim
def shared_key_against_certificates_does_not():
    key = add_key("flotilla-test", bytes(range(32)))
    with cluster(listed=False) as c, agents(c, "n1", "n2") as running:
        configure(c, {"node_auth": PSK, "node_key": key}, {"node_auth": X509})
        never_up(c, running)


if __name__ == "__main__":
    if not TLSHD:
        print("1..0 # SKIP no tlshd here: run 'make deps'")
        sys.exit(4)
    for module in ("tls", "flotilla", "flt_link_test"):
        run("modprobe", module)
    try:
        PSK_KEYS = not subprocess.run(("modprobe", "-q", "nvme-keyring"), check=False).returncode
        RING = keyring(KEYRING)
        authority("trusted")
        authority("elsewhere")
        for cert, by, node in (("n1", "trusted", "n1"), ("n2", "trusted", "n2"), ("n9", "trusted", "n9"),
                               ("stranger", "elsewhere", "n2")):
            certificate(cert, by, node)
        main()
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
        run("modprobe", "-r", "flt_link_test")
        run("modprobe", "-r", "flotilla")
