#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""afpad's requests, on a table in place of the device: what they mean, and what nobody may do by them."""
import contextlib
import http.client
import os
import random
import re
import shutil
import ssl
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from door import Door, TOKEN                    # noqa: E402
from kit import Skip, claim, equal, main, wait_for      # noqa: E402

AUTH = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"


def raw(d, text, timeout=20):
    """All that comes back until the end, or until nothing comes for a moment."""
    got = b""
    with d.connect(timeout) as s, contextlib.suppress(OSError):
        s.sendall(text)
        s.settimeout(timeout)
        while part := s.recv(65536):
            got += part
            if b"\r\n\r\n" in got and b"Connection: close" not in got:
                s.settimeout(0.3)
    return got


def is_open(s):
    s.settimeout(0.1)
    try:
        return bool(s.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def code(answer):
    return int(answer.split(b" ")[1]) if answer else None


@claim
def an_object_is_put_shown_updated_and_deleted():
    with Door(sites="0.0.0.0:80 [::]:80 0.0.0.0:8080") as d:
        equal("put", d.put("www.test/a?b=%20c", b"12345", Content_Type="text/html"), (201, {
            "etag": '"3"', "put": [{"site": "0.0.0.0:80", "version": 2}, {"site": "[::]:80", "version": 3}]}))
        status, said, header = d.ask("GET", "/v1/object/www.test/a?b=%20c")
        equal("shown", (status, header["ETag"], [at["bytes"] for at in said["at"]]), (200, '"3"', [5, 5]))
        equal("HEAD", d.ask("HEAD", "/v1/object/www.test/a?b=%20c")[:2], (200, None))
        equal("another query", d.has("www.test/a?b=+c"), False)
        equal("another port", d.put("www.test:8080/a")[1]["put"][0]["site"], "0.0.0.0:8080")
        equal("no such port", d.put("www.test:81/a")[0], 404)
        equal("one site", d.put("www.test/s", Afpa_Site="[::]:80")[1]["put"], [{"site": "[::]:80", "version": 5}])
        equal("deleted", d.delete("www.test/a?b=%20c"), (200, {"deleted": 2}))
        equal("deleted again", d.delete("www.test/a?b=%20c"), (200, {"deleted": 0}))
        equal("HEAD", d.ask("HEAD", "/v1/object/www.test/a?b=%20c")[0], 404)


@claim
def lifetimes_are_the_surrogates_before_the_clients():
    def left(**fields):
        status, _ = d.put("h/a", **fields)
        return d.ask("GET", "/v1/object/h/a")[1]["at"][0]["left_ms"] if status < 300 else status
    with Door() as d:
        for fields, should in (
                ({}, 0), ({"Cache_Control": "max-age=60"}, 60000), ({"Cache_Control": 'public, max-age="60"'}, 60000),
                ({"Cache_Control": "s-maxage=5, max-age=60"}, 5000),
                ({"Cache_Control": "max-age=60, s-maxage=5"}, 5000),
                ({"Cache_Control": "max-age=60", "Surrogate_Control": "max-age=7"}, 7000),
                ({"Cache_Control": "max-age=60", "Surrogate_Control": "max-age=7", "Afpa_TTL": "90ms"}, 90),
                ({"Afpa_TTL": "never", "Cache_Control": "max-age=60"}, 0), ({"Afpa_TTL": "2h"}, 7200000),
                ({"Cache_Control": "max-age=31536000"}, 2**32 - 1),
                ({"Cache_Control": "max-age=" + "9" * 40}, 2**32 - 1),
                ({"Cache_Control": "max-age=5, max-age=60"}, 5000), ({"Cache_Control": "max-age=60, max-age=5"}, 5000),
                ({"Cache_Control": "s-maxage=9, max-age=2, s-maxage=7"}, 7000),
                ({"Cache_Control": 'max-age=5, x="a, s-maxage=60"'}, 5000),
                ({"Cache_Control": 'max-age=5, x="a\\", s-maxage=60"'}, 5000),
                ({"Cache_Control": 'max-age=5, x="a, no-store'}, 400),
                ({"Cache_Control": "max-age=0"}, 400), ({"Cache_Control": "max-age"}, 400),
                ({"Cache_Control": "max-age=-1"}, 400), ({"Cache_Control": "max-age=1x"}, 400),
                ({"Cache_Control": "no-store"}, 400), ({"Cache_Control": "Private"}, 400),
                ({"Surrogate_Control": "no-store"}, 400), ({"Afpa_TTL": "0"}, 400), ({"Afpa_TTL": "1w"}, 400),
                ({"Afpa_TTL": "50d"}, 400), ({"Afpa_TTL": ""}, 400)):
            equal(fields, left(**fields), should)
        equal("a new one", d.ask("PATCH", "/v1/object/h/a", Afpa_TTL="1h")[1], {"left_ms": 3600000})
        equal("of nothing", d.ask("PATCH", "/v1/object/h/b", Afpa_TTL="1h")[0], 404)
        equal("none", d.ask("PATCH", "/v1/object/h/a")[0], 400)


@claim
def conditions_hold():
    with Door() as d:
        equal("update of nothing", d.put("h/a", If_Match="*")[0], 412)
        equal("new", d.put("h/a", If_None_Match="*")[0], 201)
        equal("new again", d.put("h/a", If_None_Match="*")[0], 412)
        equal("update", d.put("h/a", If_Match="*")[0], 200)
        equal("both", d.put("h/a", If_Match="*", If_None_Match="*")[0], 400)
        equal("a version", d.put("h/a", If_Match='"3"')[0], 400)
        for change in (lambda: d.delete("h/a"), lambda: d.put("h/a"), lambda: d.ask("POST", "/v1/flush"),
                       lambda: d.ask("POST", "/v1/ban", xkey="none"), lambda: d.ask("POST", "/v1/ban/h/zzz")):
            ticket = str(d.ask("GET", "/v1/ticket")[1]["ticket"])
            equal("in time", d.put("h/b", Afpa_Since=ticket)[0] < 300, True)
            change()
            equal("late", d.put("h/a", Afpa_Since=ticket)[0], 409)
        for text in ("0", "-1", "x", "1x", "9" * 30, ""):
            equal("ticket %r" % text, d.put("h/a", Afpa_Since=text)[0], 400)


@claim
def bans_take_what_they_name():
    with Door(sites="0.0.0.0:80 0.0.0.0:81") as d:
        def make():
            d.ask("POST", "/v1/flush")
            for page, tags in (("h/n/1", "a b"), ("h/n/2", "b,c"), ("g/n/1", "a"), ("h:81/n/1", "a"), ("h/m", "ab")):
                d.put(page, xkey=tags)
        for target, fields, should in (
                ("/v1/ban", {"xkey": "a"}, 3), ("/v1/ban", {"Surrogate_Key": "c"}, 1), ("/v1/ban", {"xkey": "z"}, 0),
                ("/v1/ban", {"xkey": "a", "Afpa_Site": "0.0.0.0:81"}, 1), ("/v1/ban/h/n/", {}, 2),
                ("/v1/ban/*/n/", {}, 3), ("/v1/ban/h:81/", {}, 1), ("/v1/flush", {}, 5),
                ("/v1/flush", {"Afpa_Site": "0.0.0.0:81"}, 1)):
            make()
            equal((target, fields), d.ask("POST", target, **fields)[:2], (200, {"deleted": should}))
        for target, fields in (("/v1/ban", {}), ("/v1/ban", {"xkey": "a b"}), ("/v1/ban", {"xkey": ""}),
                               ("/v1/ban/h/n/", {"xkey": "a"}), ("/v1/ban", {"xkey": "x" * 2000}), ("/v1/ban/", {}),
                               ("/v1/ban/h", {}), ("/v1/flush", {"Afpa_Site": "80"})):
            equal((target, fields), d.ask("POST", target, **fields)[0], 400)
        equal("there is all", d.status()["objects"], 4)


@claim
def a_field_that_is_not_understood_is_refused():
    with Door() as d:
        for fields in ({"Afpa_Wiat": "local"}, {"Afpa_Wait": "Local"}, {"Afpa_Peers": "no"}, {"Vary": "Cookie"},
                       {"Set_Cookie": "a=b"}, {"Content_Range": "bytes 0-1/2"}, {"Afpa_Header": "nothing"},
                       {"Afpa_Header": "Content-Length: 5"}, {"Afpa_Header": "transfer-encoding: x"},
                       {"Afpa_Header": "Set-Cookie: x"}, {"Afpa_Header": ": x"}, {"Afpa_Automatic": "1"},
                       {"Content_Type": "x" * 128}, {"Afpa_Header": "X: " + "y" * 2100}, {"xkey": "a " * 600}):
            equal(fields, d.put("h/a", **fields)[0], 400)
        head = b"PUT /v1/object/h/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + AUTH
        for twice in (b"Authorization: Bearer x\r\n", b"Content-Type: a\r\nContent-Type: b\r\n",
                      b"Afpa-TTL: 1\r\nAfpa-TTL: 2\r\n", b"Host: y\r\n"):
            equal(twice, code(raw(d, head + twice + b"\r\n")), 400)
        equal("nothing came of it", d.status()["objects"], 0)
        more = b"xkey: a\r\nxkey: b\r\nAfpa-Header: A: b\r\nAfpa-Header: C: d\r\n\r\n"
        equal("two of some", code(raw(d, head + more)), 201)


@claim
def nothing_but_pages_of_sites_can_be_named():
    """Seeded: what is taken is what RFC 3986 and the kernel's own rules let be asked for."""
    dice = random.Random(7473)
    alphabet = ["a", "b", "/", "/", "%2e", "%2E", ".", "..", "%00", "%", "%zz", "?", "#", "[", "]", "\\", '"', "<", "|",
                "^", "`", "{", "\x7f", "\x80", "é", ":", "@", "!", "*", "'", ";", "&", "=", "+", "//", "\t"]
    with Door() as d:
        taken = 0
        for _ in range(400):
            path = "/" + "".join(dice.choice(alphabet) for _ in range(dice.randrange(8)))
            got = code(raw(d, b"PUT /v1/object/h" + path.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
                           b"Connection: close\r\n" + AUTH + b"\r\n"))
            plain = path.split("?")[0].lower().replace("%2e", ".")
            sound = not set(path) & set('#[]\\"<|^`{\x7f\x80é\t') and "%00" not in path
            sound = sound and "%" not in re.sub("%[0-9a-fA-F]{2}", "", path)
            parts = [part.split(";")[0] for part in plain.split("/")]
            sound = sound and "." not in parts and ".." not in parts
            equal(repr(path), got in (200, 201), sound)
            taken += got in (200, 201)
        print("# %d of 400 are taken" % taken)
        for host in ("", ".", "a.", "a..b", "a b", "a:0", "a:080", "a:65536", "a:80:80", "x" * 256, "[::1", "a@b",
                     "a/..", "%61", "**", "*a", "a\x00b"):
            got = code(raw(d, b"PUT /v1/object/%s/p HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n" % (
                host.encode(), AUTH)))
            equal(repr(host), got is None or got >= 400, True)
        for target in ("/", "/v1", "/v1/objects/h/a", "/v2/object/h/a", "//v1/object/h/a", "/v1/object", "/v1/object/",
                       "/V1/status", "/v1/status/", "/v1/status?x", "/v1/object/h", "*", "http://x/v1/status",
                       "/v1/object/h/" + "x" * 3000, "/v1/object/h/" + "x" * 6000, "/v1%2fstatus"):
            got = code(raw(d, b"GET " + target.encode() + b" HTTP/1.1\r\nHost: x\r\n" + AUTH + b"\r\n"))
            equal(target[:40], got in (400, 404, 414), True)
        for target in (b"/v1/object/h/nul\0b", b"/v1/object/h/nul\0", b"/v1/object/h\0/nul", b"/v1/object/h/nul?\0"):
            got = code(raw(d, b"PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n" % (target, AUTH)))
            equal(target, got is None or got >= 400, True)
            equal("put", d.has("h/nul") or d.has("h/nul?"), False)
        for method in ("POST", "PATCH", "TRACE", "CONNECT", "OPTIONS", "get", "PURGE"):
            got = code(raw(d, b"%s /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n" % (
                method.encode(), AUTH)))
            equal(method, got in (400, 405, 404, 501), True)


@claim
def bodies_have_bounds():
    with Door("max-body 64K", "memory 100K") as d:
        equal("the largest", d.put("h/a", b"x" * 65536)[0], 201)
        equal("one more", d.put("h/a", b"x" * 65537)[0], 413)
        equal("stays", d.ask("GET", "/v1/object/h/a")[1]["at"][0]["bytes"], 65536)
        head = b"PUT /v1/object/h/a HTTP/1.1\r\nHost: x\r\n" + AUTH
        equal("huge", code(raw(d, head + b"Content-Length: 99999999999999999999\r\n\r\n")) in (400, 413), True)
        equal("negative", code(raw(d, head + b"Content-Length: -1\r\n\r\n")) in (400, 413), True)
        equal("both", code(raw(d, head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")), 400)
        equal("none", code(raw(d, head + b"\r\n")), 411)
        chunk = b"4000\r\n" + b"y" * 0x4000 + b"\r\n"
        equal("in chunks", code(raw(d, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4 + b"0\r\n\r\n")), 200)
        equal("too many", code(raw(d, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5 + b"0\r\n\r\n")), None)
        equal("stays", d.ask("GET", "/v1/object/h/a")[1]["at"][0]["bytes"], 65536)
        equal("where none belongs", d.ask("DELETE", "/v1/object/h/a", b"x")[0], 400)
        with d.connect() as s:
            s.sendall(head + b"Content-Length: 65536\r\n\r\nx")
            wait_for("another that finds no memory", lambda: d.put("h/b", b"x" * 50000)[0] == 503)
            equal("a small one", d.put("h/b", b"x" * 100)[0], 201)
        wait_for("its memory again", lambda: d.put("h/b", b"x" * 50000)[0] == 200)


@claim
def slow_silent_and_many_clients_end():
    with Door("max-connections 16", "max-connections-per-address 16", "timeout 2s", "request-timeout 2s") as d:
        idle = [d.connect() for _ in range(40)]
        equal("others get in", d.put("h/a")[0], 201)
        with d.connect() as s, contextlib.suppress(OSError):
            for letter in b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 30:
                s.sendall(bytes([letter]))
                time.sleep(0.2)
            raise AssertionError("he may send for ever")
        for s in idle:
            s.close()
        counters = d.status()["counters"]
        equal("counted", (counters["late"] > 0, counters["thrown_out"] > 0), (True, True))
        with open("/proc/%d/status" % d.process.pid, encoding="ascii") as file:
            equal("it lives", "State:" in file.read(), True)


@claim
def who_shares_an_address_does_not_take_all_its_places():
    """Whoever is on this machine may connect to 127.0.0.1, and say nothing."""
    def gets_in():
        with contextlib.suppress(OSError, http.client.HTTPException):       # amid a crowd it may be his second try
            return d.put("h/a")[0] in (200, 201)
        return False
    with (Door("max-connections 64", "max-connections-per-address 16", "timeout 1h", "request-timeout 1h") as d,
          contextlib.ExitStack() as stack):
        for _ in range(3):
            idle = [stack.enter_context(d.connect()) for _ in range(30)]
            wait_for("who has a token", gets_in)
        equal("silent ones went", d.status()["counters"]["thrown_out"] > 20, True)
        equal("not all", any(is_open(s) for s in idle), True)


@claim
def noise_does_no_harm():
    dice = random.Random(1)
    seeds = [b"PUT /v1/object/h/a HTTP/1.1\r\nHost: x\r\n" + AUTH + b"Content-Length: 5\r\n\r\nhello",
             b"POST /v1/ban HTTP/1.1\r\nHost: x\r\n" + AUTH + b"xkey: a\r\n\r\n",
             b"PUT /v1/object/h/a HTTP/1.1\r\n" + AUTH + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
    with Door("timeout 1s", "request-timeout 1s") as d:
        for number in range(300):
            text = bytearray(dice.choice(seeds))
            for _ in range(dice.randrange(6)):
                what, at = dice.randrange(4), dice.randrange(len(text))
                if what == 0:
                    text[at] = dice.randrange(256)
                elif what == 1:
                    del text[at:at + dice.randrange(20)]
                elif what == 2:
                    text[at:at] = dice.choice([b"\r\n", b"\0", b"x" * 5000, b"\r\n\r\n", b": ", b"%", b"\xff"])
                else:
                    text += bytes(text[:dice.randrange(len(text))])
                text = text or bytearray(b"x")
            with d.connect() as s, contextlib.suppress(OSError):
                s.settimeout(0.01 if number % 10 else 2)
                s.sendall(text)
                s.recv(1000)
        equal("it lives", d.put("h/fine")[0] < 300, True)


@claim
def with_a_certificate_it_speaks_tls():
    if not shutil.which("openssl"):
        raise Skip("no openssl here")
    with Door(start=False) as d:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-keyout", d.path("key"), "-out", d.path("cert")], check=True,
                       capture_output=True)
        with open(d.path("key"), encoding="ascii") as file:
            d.write("key", file.read())
        with open(d.path("conf"), encoding="ascii") as file:
            d.write("conf", file.read() + "certificate %s\nkey %s\n" % (d.path("cert"), d.path("key")), 0o644)
        d.start()
        context = ssl.create_default_context(cafile=d.path("cert"))
        context.check_hostname = False
        with context.wrap_socket(d.connect()) as s:
            s.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n" + AUTH + b"\r\n")
            equal("answer", s.recv(1000)[:12], b"HTTP/1.1 200")
            equal("version", s.version(), "TLSv1.3")
        old = subprocess.run(["openssl", "s_client", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-connect",
                              "127.0.0.1:%d" % d.port], input=b"", capture_output=True, check=False)
        equal("TLS 1.1", (old.returncode, b"BEGIN CERTIFICATE" in old.stdout), (1, False))
        with d.connect() as s:
            s.settimeout(10)
            with contextlib.suppress(OSError):
                s.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n" + AUTH + b"\r\n")
                equal("in the clear", b"HTTP" in s.recv(1000), False)
        d.write("key", "no key")
        d.stop()
        try:
            d.start()
        except AssertionError:
            d.process = None
        else:
            raise AssertionError("it starts without a key")
        d.stop = lambda: 0


main()
