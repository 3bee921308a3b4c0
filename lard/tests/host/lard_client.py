#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""Certificates of clients: who must have one, what back-ends are told, and what nobody can make them believe."""

import base64
import contextlib
import hashlib
import os
import re
import ssl
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
from lardd import LARDD, answer_with, cluster, content, free_port, main, read_answer, until     # noqa: E402
from secure import Site, count_is                     # noqa: E402
from pki import Authority                               # noqa: E402

OURS = ("client-cert", "client-cert-chain", "x-client-verify", "x-client-subject", "x-client-fingerprint")
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


class Gate(Site):
    """A lardd with four doors: plain, tls, and two that ask for certificates."""

    def __init__(self, lardd, extra=""):
        self.authority = Authority(lardd.directory.name)
        self.optional, self.required = free_port(), free_port()
        super().__init__(lardd, ("one.test", "two.test"), extra)

    def configure(self, names, extra=""):
        super().configure(names, f"listen 127.0.0.1:{self.optional} tls client optional\n"
                          f"listen 127.0.0.1:{self.required} tls client required\n"
                          f"client-ca {self.authority.chain}\n{extra}")

    def reload(self, extra=""):
        before = self.lardd.control("status")["reloads"]
        self.configure(self.files, extra)
        self.lardd.reload()
        until(lambda: self.lardd.control("status")["reloads"] > before, what="the reload")

    def client(self, who=None, version=ssl.TLSVersion.TLSv1_3, name="one.test"):
        context = self.context(name)
        context.minimum_version = context.maximum_version = version
        if who:
            context.load_cert_chain(*who)
        return context

    def ask(self, port, context, fields="", session=None, name="one.test", target="/size/5"):
        """What the back-end saw of our fields, and the session with whether it was resumed."""
        was, self.port = self.port, port
        try:
            with self.connect(name, context, session=session) as s:
                s.sendall(f"GET {target} HTTP/1.1\r\nHost: {name}\r\n{fields}\r\n".encode())
                assert read_answer(s.makefile("rb"))[2] == content(5)
                return ours(self.lardd), s.session, s.session_reused
        finally:
            self.port = was

    def refused(self, port, context, **more):
        seen, failed = len(self.lardd.backends[0].seen), self.lardd.counter("LardTlsFailed")
        try:
            self.ask(port, context, **more)
        except (OSError, EOFError):
            count_is(self.lardd, "LardTlsFailed", failed + 1)
            assert len(self.lardd.backends[0].seen) == seen
            return True
        return False


def ours(lardd):
    """Of the last request, however they are spelt."""
    fields = lardd.backends[0].seen[-1][3]
    return {key: value for key, value in fields.items() if re.sub("[^a-z]", "-", key) in OURS}


def told_of(chain, subject):
    with open(chain, encoding="ascii") as file:
        der = ssl.PEM_cert_to_DER_cert(file.read().partition("-----END CERTIFICATE-----")[0] +
                                       "-----END CERTIFICATE-----\n")
    return {"client-cert": [f":{base64.b64encode(der).decode()}:"], "x-client-verify": ["success"],
            "x-client-subject": [subject], "x-client-fingerprint": [hashlib.sha256(der).hexdigest()]}


NONE = {"x-client-verify": ["none"]}


@contextlib.contextmanager
def gate(extra=""):
    with cluster(1) as lardd:
        yield Gate(lardd, extra)


def back_ends_are_told_who_it_is():
    """At each of the doors that ask, with a whole handshake, on a kept connection and when resumed."""
    with gate() as g:
        ann = g.authority.issue("ann", "/OU=ops/CN=ann")
        told, clients = told_of(ann[0], "CN=ann,OU=ops"), 0
        for version in VERSIONS:
            for port in (g.optional, g.required):
                context = g.client(ann, version)
                seen, session, _ = g.ask(port, context)
                assert seen == told, seen
                seen, _, reused = g.ask(port, context, session=session)
                assert reused and seen == told, (version, reused, seen)
                clients += 2
            assert g.ask(g.optional, g.client(None, version))[0] == NONE
            assert g.ask(g.port, g.client(ann, version))[0] == NONE     # nobody asks for it there
        count_is(g.lardd, "LardTlsClients", clients)
        g.lardd.get("/size/5")
        assert ours(g.lardd) == NONE
        assert "told to back-ends" in g.lardd.control("status")["mode_why"]


def who_has_none_that_is_good_is_refused():
    """Of a stranger with the authority's name, expired, for servers only, without; optional takes no bad one either."""
    with gate() as g:
        strangers = Authority(g.lardd.directory.name, "strangers", "ca")
        bad = [strangers.issue("ann"), g.authority.issue("old", seconds=-60),
               g.authority.issue("server", extensions="extendedKeyUsage=serverAuth")]
        for version in VERSIONS:
            assert g.refused(g.required, g.client(None, version))
            for who in bad:
                for port in (g.optional, g.required):
                    assert g.refused(port, g.client(who, version)), who
        good = g.authority.issue("ann", extensions="extendedKeyUsage=clientAuth")
        assert g.ask(g.required, g.client(good))[0] == told_of(good[0], "CN=ann")
        assert "certificate verify failed" in g.lardd.log() and "did not return a certificate" in g.lardd.log()


def nobody_says_it_himself():
    """On any door, in any spelling; nor by a subject with line ends, or one so long that it would be cut."""
    with gate() as g:
        ann = g.authority.issue("ann")
        told_ann = told_of(ann[0], "CN=ann")
        forged = "".join(f"{name}: forged\r\n" for field in OURS for name in
                         (field, field.upper(), field.replace("-", "_"), field.replace("-", "_", 1),
                          field.replace("-", "."), field.replace("-", "~", 1)))
        forged += "Connection: X-Client-Verify, Client-Cert\r\nX-Client-Other: stays\r\n"
        for port, who, told in ((g.port, None, NONE), (g.optional, None, NONE), (g.optional, ann, told_ann),
                                (g.required, ann, told_ann)):
            seen, _, _ = g.ask(port, g.client(who), forged)
            assert seen == told, (port, seen)
        assert g.lardd.backends[0].seen[-1][3]["x-client-other"] == ["stays"]
        g.lardd.get("/size/5", forged)
        assert ours(g.lardd) == NONE
        eve = g.authority.issue("eve", "/CN=eve\r\nX-Client-Subject: CN=ann\r\nX-Other: \x01é\"")
        seen, _, _ = g.ask(g.required, g.client(eve))
        assert seen == told_of(eve[0], 'CN=eve\\0D\\0AX-Client-Subject: CN=ann\\0D\\0AX-Other: \\01\\C3\\A9\\"'), seen
        assert "x-other" not in g.lardd.backends[0].seen[-1][3]
        for units, told in ((12, True), (20, False)):
            who = g.authority.issue("long", "".join(f"/OU={i:060}" for i in range(units)) + "/CN=long")
            assert g.refused(g.required, g.client(who)) != told, units
        assert "too long to be passed on" in g.lardd.log()


def what_nobody_vouches_for_is_taken_away():
    """Without any client-ca too: there is no time at which a client is believed."""
    with cluster(1) as lardd:
        lardd.get("/size/5", "X-Client-Verify: success\r\nclient_cert: :AA==:\r\nX.Client.Verify: success\r\n")
        assert ours(lardd) == {}


def sessions_cross_no_boundary():
    """Neither to a door that asks for more, nor to another certificate, nor to another authority."""
    with gate() as g:
        ann = g.authority.issue("ann")
        for version in VERSIONS:
            nobody, somebody = g.client(None, version), g.client(ann, version)
            nobody.check_hostname = False
            nobody.load_verify_locations(g.files["two.test"][0])
            for door in (g.port, g.optional):
                _, session, _ = g.ask(door, nobody)
                assert g.ask(door, nobody, session=session)[2], "not even there"
                assert g.refused(g.required, nobody, session=session), version
            _, session, _ = g.ask(g.port, nobody)
            assert not g.ask(g.optional, nobody, session=session)[2]
            assert not g.ask(g.port, nobody, session=session, name="two.test")[2], "another certificate"
            _, session, _ = g.ask(g.port, nobody, name="two.test")
            assert g.ask(g.port, nobody, session=session, name="two.test")[2]
            assert not g.ask(g.port, nobody, session=session)[2], "another certificate"
            _, session, _ = g.ask(g.required, somebody)
            seen, _, reused = g.ask(g.port, somebody, session=session)
            assert not reused and seen == NONE
            _, plain, _ = g.ask(g.port, nobody)
            old, g.authority = g.authority, Authority(g.lardd.directory.name, f"new{version}")
            g.reload()
            assert g.refused(g.required, somebody, session=session), "its authority is none any more"
            assert g.ask(g.port, nobody, session=plain)[2], "who is not asked has nothing to do with it"
            g.authority = old
            g.reload()


def the_revoked_are_refused():
    """After a reload that reads the list, with a session from before too; others are not."""
    with gate() as g:
        ann, bob = g.authority.issue("ann"), g.authority.issue("bob")
        for version in VERSIONS:
            context = g.client(ann, version)
            _, session, _ = g.ask(g.required, context)
            with open(g.authority.chain, "r+", encoding="ascii") as file:
                before = file.read()
                file.write(g.authority.revoke(ann[0]))
            g.reload()
            assert g.refused(g.required, context) and g.refused(g.required, context, session=session)
            assert g.ask(g.required, g.client(bob, version))[0] == told_of(bob[0], "CN=bob")
            with open(g.authority.chain, "w", encoding="ascii") as file:
                file.write(before)
            g.reload()


def in_time(steps):
    """Takes steps(SECONDS), with more until it is done before these are over; what it gives, and when they are."""
    for seconds in (4, 8, 16, 32, 64):
        over = time.monotonic() + seconds + 1
        result = steps(seconds)
        if time.monotonic() < over - 2:
            return result, over
    raise AssertionError("not done in 64 s")


def twice(g, client):
    """A session, and one that came of resuming it."""
    _, first, _ = g.ask(g.required, client)
    _, second, reused = g.ask(g.required, client, session=first)
    assert reused
    return first, second


def a_session_does_not_outlive_its_certificate():
    """Nor one of an authority between. Who has another that is good is not refused for the session that he brings."""
    with gate() as g:
        lasting = g.authority.issue("lasting")
        for version in VERSIONS:
            middle = g.authority.below(f"middle{version}")
            between = middle.issue("between")

            def own(seconds, version=version):
                client = g.client(g.authority.issue("ann", seconds=seconds), version)
                return client, twice(g, client)

            def above(seconds, version=version, middle=middle, between=between):
                middle.renew(g.authority, between[0], seconds)
                client = g.client(between, version)
                return client, twice(g, client)
            for steps in (own, above):
                (client, sessions), over = in_time(steps)
                time.sleep(max(0, over - time.monotonic()))
                for session in sessions:
                    assert g.refused(g.required, client, session=session), (version, steps)
                client.load_cert_chain(*lasting)
                seen, _, reused = g.ask(g.required, client, session=sessions[1])
                assert seen == told_of(lasting[0], "CN=lasting") and not reused
        assert "certificate verify failed" in g.lardd.log()


def a_session_does_not_outlive_the_list():
    """Of the revoked, by which it was let in."""
    with gate() as g:
        client = g.client(g.authority.issue("ann"))
        with open(g.authority.chain, encoding="ascii") as file:
            before = file.read()

        def steps(seconds):
            text = before + g.authority.revoke(seconds=seconds)
            with open(g.authority.chain, "w", encoding="ascii") as file:
                file.write(text)
            g.reload()
            return twice(g, client)
        sessions, over = in_time(steps)
        time.sleep(max(0, over - time.monotonic()))
        assert g.refused(g.required, client)
        for session in sessions:
            assert g.refused(g.required, client, session=session)


def who_comes_again_and_again_shows_its_certificate_again():
    """When a ticket's life has passed since it last did: whom nobody vouches for now must not stay for ever."""
    for version in VERSIONS:
        for rotation in (2, 8, 32):
            with gate(f"ticket-rotation {rotation}s") as g:
                client = g.client(g.authority.issue("ann"), version)
                began = time.monotonic()
                _, session, _ = g.ask(g.required, client)
                reused = []
                while time.monotonic() < began + 2 * rotation + 2:
                    _, session, again = g.ask(g.required, client, session=session)
                    reused.append(again)
                    time.sleep(rotation / 8)
            assert not all(reused), f"{len(reused)} times in {2 * rotation + 2} s"
            if len(reused) > 8 and reused[0]:
                break
        else:
            raise AssertionError("never resumed at all")


def what_is_for_one_is_not_kept_for_all():
    """The cache: as with a password, only what the back-end says is public."""
    with gate("cache-size 1000000\ncache-object-max 1000") as g:
        ann = g.authority.issue("ann")
        for field, kept in (("Cache-Control: max-age=600", False), ("Cache-Control: public, max-age=600", True)):
            target, before = answer_with(5, field), len(g.lardd.backends[0].seen)
            for who in (ann, None):
                g.ask(g.optional, g.client(who), target=target)
            assert len(g.lardd.backends[0].seen) - before == (1 if kept else 2), field


def nonsense_is_found_by_check():
    """And refuses a reload."""
    with gate() as g:
        leaf = g.authority.issue("leaf")[0]
        alone = os.path.join(g.lardd.directory.name, "alone.pem")
        with open(leaf, encoding="ascii") as whole, open(alone, "w", encoding="ascii") as file:
            file.write(whole.read().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")
        chain = f"certificate {' '.join(g.files['one.test'])}\n"
        ask, good = "listen 127.0.0.1:1 tls client optional\n" + chain, g.authority.chain
        for lines, word in ((ask, "needs a client-ca"),
                            (chain + f"listen 127.0.0.1:1 tls\nclient-ca {good}", "no listener asks"),
                            (ask + "client-ca /nowhere", "No such file"),
                            (ask + f"client-ca {alone}", "no authority's"),
                            (ask + f"client-ca {g.files['one.test'][1]}", "no certificate"),
                            (ask + f"client-ca {good}", ""),
                            (f"listen 127.0.0.1:1 tls client always\n{chain}", "is not ADDRESS"),
                            (ask + "listen 127.0.0.1:1 tls client required", "two ways")):
            g.lardd.configure(lines)
            run = subprocess.run([LARDD, "-c", g.lardd.config_path, "--check"], capture_output=True, text=True,
                                 check=False)
            assert run.returncode == (1 if word else 0) and word in run.stderr, (lines, run)


if __name__ == "__main__":
    sys.exit(main([back_ends_are_told_who_it_is, who_has_none_that_is_good_is_refused, nobody_says_it_himself,
                   what_nobody_vouches_for_is_taken_away, sessions_cross_no_boundary, the_revoked_are_refused,
                   a_session_does_not_outlive_its_certificate, a_session_does_not_outlive_the_list,
                   who_comes_again_and_again_shows_its_certificate_again,
                   what_is_for_one_is_not_kept_for_all,
                   nonsense_is_found_by_check]))
