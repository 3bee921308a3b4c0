#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""What an administrator says of HTTPS to lardd: sending there who comes in clear text, HSTS, OCSP."""

import contextlib
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib")]
from lardd import LARDD, answer_with, content, free_port, main, read_answer, receive_all, until     # noqa: E402
from secure import count_is, make_certificate, site  # noqa: E402
from pki import Authority                               # noqa: E402

HSTS = "strict-transport-security"


def reload(s):
    before = s.lardd.control("status")["reloads"]
    s.lardd.reload()
    until(lambda: s.lardd.control("status")["reloads"] > before, what="the reload")


def check(s, lines):
    """What --check says of these lines, and its exit status."""
    s.lardd.configure(lines)
    run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True,
                         check=False)
    return run.returncode, run.stderr


class Front:
    """A Site that also listens in clear text and sends to itself."""

    def __init__(self, s, extra=""):
        self.site, self.port, self.extra = s, free_port(), extra
        self.set(extra)

    def set(self, extra):
        self.site.configure(self.site.files, f"listen 127.0.0.1:{self.port} redirect\n{extra}")
        reload(self.site)

    def ask(self, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(data)
            return receive_all(client)

    def location(self, target, host="one.test", method="GET"):
        answer = self.ask(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
        head = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        found = [line[10:] for line in head if line.lower().startswith("location: ")]
        return int(head[0].split()[1]), found


@contextlib.contextmanager
def front(names=("one.test",), extra=""):
    with site(names) as s:
        yield Front(s, extra)


def who_asks_in_clear_is_sent_to_https():
    """With host, path and query as they were; a client that follows gets its answer."""
    with front() as f:
        there = f"https://one.test:{f.site.port}"
        assert f.location("/size/5?a=b&c=%20d") == (308, [there + "/size/5?a=b&c=%20d"])
        assert f.location("/", "ONE.test:8080") == (308, [there.replace("one", "ONE") + "/"])
        assert f.location("/a", "one.test.") == (308, [there + "/a"])
        assert f.location("http://one.test/b", "one.test") == (308, [there + "/b"])
        assert f.location("http://one.test?q", "one.test") == (308, [there + "/?q"])
        assert f.location("/post", method="POST")[0] == 308
        run = subprocess.run(["curl", "-sSL", "--cacert", f.site.files["one.test"][0], "--resolve",
                              f"one.test:{f.port}:127.0.0.1", "--resolve",
                              f"one.test:{f.site.port}:127.0.0.1", "-w", "%{num_redirects}",
                              f"http://one.test:{f.port}/size/5"], capture_output=True, check=False)
        assert run.stdout == content(5) + b"1", run
        assert [seen[1] for seen in f.site.lardd.backends[0].seen] == ["/size/5"]
        count_is(f.site.lardd, "LardRedirected", 7)
        assert f.site.lardd.counter("LardRequests") == 1
        f.set("https-redirect status 301 port 443")
        assert f.location("/x") == (301, ["https://one.test/x"])


def nobody_is_led_elsewhere():
    """Hosts that no certificate is for, and what two readers could take in two ways."""
    with front() as f:
        there = f"https://one.test:{f.site.port}"
        for host in ("evil.test", "one.test.evil.test", ".test", ".one.test", "one.test:443:1", "[::1]", "127.0.0.1",
                     "one.test%20", "one.test,evil.test", "evil.test:80", "x" * 300 + ".one.test", "",
                     "one.test:a", "[one.test]"):
            assert f.location("/a", host) == (421, []), host
        for host in ("evil.test/one.test", "one.test@evil.test", "one.test\\evil.test", "one.test?", "a b"):
            assert f.location("/a", host) == (400, []), host
        assert f.location("http://evil.test/", "one.test") == (400, [])
        assert f.location("*", method="OPTIONS") == (400, [])
        for target, shown in (("//evil.test/%0d%0aX:y", "//evil.test/%0d%0aX:y"), ("/\\evil.test", "/%5Cevil.test"),
                              ("/\"<a>", "/%22%3Ca%3E"), ("/@evil.test", "/@evil.test")):
            assert f.location(target) == (308, [there + shown]), f.location(target)
        for byte in [*range(1, 33), *range(127, 256)]:      # refused, or encoded
            code, found = f.location("/a" + chr(byte) + "b")
            assert code in (400, 308), (byte, code)
            assert found in ([], [there + f"/a%{byte:02X}b"]), (byte, found)
        assert f.location("/" + "a" * 7500) == (308, [there + "/" + "a" * 7500])
        f.set("max-header 16384")
        for target in ("/" + "a" * 9000, "/" + "\"" * 4000):
            assert f.location(target) == (414, []), len(target)
        assert not f.site.lardd.backends[0].seen


def addresses_are_read_as_browsers_do():
    """An octal number is another address to them, and one of IPv6 has its brackets."""
    with front() as f:
        f.site.files["one.test"] = make_certificate(f.site.lardd.directory.name, "one.test",
                                                    more=",IP:127.0.0.1,IP:2001:db8::a")
        f.set("")
        for host in ("127.0.0.1", "[2001:db8::a]", "[2001:DB8:0::A]"):
            there = [f"https://{host}:{f.site.port}/a"]
            for port in ("", ":80", ":"):
                assert f.location("/a", host + port) == (308, there), host + port
        for host in ("0127.0.0.1", "127.0.0.01", "127.0.0.1.1", "[127.0.0.1]", "2001:db8::a", "127.1", "0x7f.0.0.1",
                     "[2001:db8::b]", "[::ffff:127.0.0.1]", "[2001:db8::a", "2001:db8::a]", "[[2001:db8::a]]"):
            assert f.location("/a", host) == (421, []), host


def an_old_client_is_sent_to_the_default_host():
    """Who names no host; to one that a certificate is for."""
    with front() as f:
        ask = b"GET /a HTTP/1.0\r\n\r\n"
        assert b" 421 " in f.ask(ask)
        f.set("default-host one.test")
        assert f"\r\nLocation: https://one.test:{f.site.port}/a\r\n".encode() in f.ask(ask)
        f.set("default-host evil.test")
        assert b" 421 " in f.ask(ask)


def challenges_are_served_in_clear():
    """And nothing else that looks so, on no request of the connection."""
    token = "/.well-known/acme-challenge/abc_DEF-123"
    with front() as f:
        assert f.location(token)[0] == 308
        f.set("https-redirect acme on")
        assert f.location(token)[0] == 200
        for target in ("/.well-known/acme-challenge/", "/.well-known/acme-challenge/../../secret",
                       "/.well-known/acme-challenge/%2e%2e/secret", token + "?a", token + "/x",
                       "/.well-known/acme-challengeX"):
            assert f.location(target)[0] == 308, target
        two = f"GET {token} HTTP/1.1\r\nHost: one.test\r\n\r\nGET /size/7 HTTP/1.1\r\nHost: one.test\r\n\r\n"
        with socket.create_connection(("127.0.0.1", f.port), timeout=60) as client:
            client.sendall(two.encode())
            stream = client.makefile("rb")
            assert read_answer(stream)[0] == 200
            code, fields, _ = read_answer(stream)
            assert code == 308 and fields["location"].endswith("/size/7"), fields
        assert {seen[1] for seen in f.site.lardd.backends[0].seen} == {token}


def hsts_said(s, target):
    """Each one that the answer has."""
    with s.connect() as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n".encode())
        head = receive_all(client).partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    return [line.partition(": ")[2] for line in head if line.startswith(HSTS)]


def hsts_is_said_over_tls_only():
    """In answers of back-ends and of lardd; a back-end's own gives way to it, and has none in clear text."""
    own = answer_with(5, "Strict-Transport-Security: max-age=1")
    year = "max-age=31536000; includeSubDomains; preload"
    with front() as f:
        s = f.site

        def said(target):
            return hsts_said(s, target)
        assert said("/size/5") == [] and said(own) == ["max-age=1"]
        assert s.lardd.get(own)[1][HSTS] == "max-age=1"
        f.set("hsts 31536000 include-subdomains preload")
        for target in ("/size/5", own, "/chunked", "/204", "/no path"):
            assert said(target) == [year.lower()], target
        assert HSTS not in s.lardd.get(own)[1]
        assert HSTS.encode() not in f.ask(b"GET / HTTP/1.1\r\nHost: one.test\r\n\r\n").lower()
        f.set("hsts 0")
        assert said(own) == ["max-age=0"]
        f.set("hsts off")
        assert said(own) == ["max-age=1"]


def hsts_is_said_of_what_the_cache_has():
    """Once, whatever the configuration was when it was stored."""
    own = answer_with(5, "Strict-Transport-Security: max-age=1", "Cache-Control: max-age=600")
    with front(extra="cache-size 1000000\ncache-object-max 1000") as f:
        for lines, age in (("", 1), ("hsts 77", 77), ("hsts 78", 78), ("", 1)):
            f.set(f"cache-size 1000000\ncache-object-max 1000\n{lines}")
            for _ in range(3):
                assert hsts_said(f.site, own) == [f"max-age={age}"], (lines, hsts_said(f.site, own))
        assert len(f.site.lardd.backends[0].seen) == 2, len(f.site.lardd.backends[0].seen)


def nonsense_is_found_by_check():
    with site() as s:
        chain = " ".join(s.files["one.test"])
        tls = f"listen 127.0.0.1:1 tls\ncertificate {chain}\nlisten 127.0.0.1:2 redirect\n"
        assert check(s, tls) == (0, "")
        for lines, word in (("listen 127.0.0.1:2 redirect", "needs an address with tls"),
                            (tls + "listen 127.0.0.1:2", "in two ways"),
                            (tls + "https-redirect status 302", "301 or 308"),
                            (tls + "https-redirect port 0", "port"),
                            (tls + "https-redirect port", "no value"),
                            (tls + "https-redirect to evil", "has no"),
                            (tls + "https-redirect acme perhaps", "acme"),
                            (tls + f"certificate {chain} staple x", "[ocsp FILE]"),
                            (tls + "hsts forever", "hsts"),
                            (tls + "hsts 5 preloaded", "has no"),
                            (tls + "hsts 31536000 preload", "needs include-subdomains"),
                            (tls + "hsts 5 include-subdomains preload", "at least 31536000")):
            code, said = check(s, lines)
            assert code == 1 and word in said, (lines, said)


def a_listener_changes_its_ways_by_a_reload():
    """Plain, then sent elsewhere, then plain; connections that are kept go by what they came to."""
    with front() as f:
        f.site.configure(f.site.files, f"listen 127.0.0.1:{f.port}")
        reload(f.site)
        with socket.create_connection(("127.0.0.1", f.port), timeout=60) as kept:
            stream = kept.makefile("rb")
            for _ in range(2):
                kept.sendall(b"GET /size/5 HTTP/1.1\r\nHost: one.test\r\n\r\n")
                assert read_answer(stream)[2] == content(5)
                f.set("")
            assert f.location("/size/5")[0] == 308
        f.site.configure(f.site.files, f"listen 127.0.0.1:{f.port}")
        reload(f.site)
        assert f.location("/size/5") == (200, [])


def stapled(s, name, version):
    """Does a client that asks get a response, and is that good?"""
    run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", "-servername", name, "-status",
                          version], input=b"", capture_output=True, timeout=60, check=False)
    said = run.stdout.decode()
    assert ("Cert Status: good" in said) != ("OCSP response: no response sent" in said), said[:2000]
    return "Cert Status: good" in said


def responses_are_stapled_and_read_again():
    """For the name that is asked for; one of another certificate is not, and neither stops a reload."""
    with site(("one.test", "two.test")) as s:
        authority = Authority(s.lardd.directory.name)
        one, two = (os.path.join(s.lardd.directory.name, name) for name in ("one.ocsp", "two.ocsp"))
        s.files = {"one.test": (*authority.issue("one.test"), "ocsp", one),
                   "two.test": (*authority.issue("two.test"), "ocsp", two),
                   "self.test": make_certificate(s.lardd.directory.name, "self.test")}

        def again(warnings):
            """Reads all of it; a warning for each response that is no good."""
            before = s.lardd.log().count("event=ocsp")
            s.configure(s.files)
            reload(s)
            assert s.lardd.log().count("event=ocsp") - before == warnings, s.lardd.log()[-2000:]
        again(2)
        assert not stapled(s, "one.test", "-tls1_3")
        count_is(s.lardd, "LardTlsUnstapled", 1)
        authority.ocsp(s.files["one.test"][0], one)
        authority.ocsp(s.files["one.test"][0], two)
        again(1)
        for version in ("-tls1_2", "-tls1_3"):
            assert stapled(s, "one.test", version)
            assert not stapled(s, "two.test", version) and not stapled(s, "self.test", version)
        count_is(s.lardd, "LardTlsStapled", 2)
        count_is(s.lardd, "LardTlsUnstapled", 3)
        authority.ocsp(s.files["two.test"][0], two)
        assert not stapled(s, "two.test", "-tls1_3"), "it was not read again"
        again(0)
        assert stapled(s, "two.test", "-tls1_3") and stapled(s, "one.test", "-tls1_3")
        run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, ""), run
        os.unlink(two)
        run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True, check=False)
        assert run.returncode == 0 and "two.ocsp: No such file" in run.stderr, run


if __name__ == "__main__":
    sys.exit(main([who_asks_in_clear_is_sent_to_https, nobody_is_led_elsewhere, addresses_are_read_as_browsers_do,
                   an_old_client_is_sent_to_the_default_host, challenges_are_served_in_clear,
                   hsts_is_said_over_tls_only, hsts_is_said_of_what_the_cache_has, nonsense_is_found_by_check,
                   a_listener_changes_its_ways_by_a_reload, responses_are_stapled_and_read_again]))
