#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""HTTPS to lardd: handshake, bytes both ways, certificates by name, reload, tickets."""

import contextlib
import hashlib
import os
import pwd
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, content, kit, main, read_answer, receive_all, until    # noqa: E402
from keyupdates import KeyUpdates       # noqa: E402
from secure import client_hello, count_is, is_nobody_elses, make_certificate, session_of, site     # noqa: E402
from pki import renegotiation           # noqa: E402


def answers_come_whole():
    """Small, of many records, in chunks and up to the end, with 1.2 and 1.3."""
    with site() as s:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = s.context()
            context.minimum_version = context.maximum_version = version
            for size in (0, 1, 16384, 3000001):
                code, _, body = s.get(f"/size/{size}", context=context)
                assert code == 200 and body == content(size), (version, size, len(body))
            assert s.get("/chunked", context=context)[2] == b"c" * 70006
            assert s.get("/eof", context=context)[2] == b"until the end"
        count_is(s.lardd, "LardTlsHandshakes", 12)
        assert s.lardd.counter("LardTlsFailed") == 0


def kept_connections_and_pipelines_go_on():
    """Requests that come in one record, and one that comes in many."""
    with site() as s, s.connect() as client:
        stream = client.makefile("rb")
        ask = b"GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n"
        client.sendall(b"".join(ask % n for n in range(20)))
        for n in range(20):
            assert read_answer(stream)[2] == content(n)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for byte in ask % 77:                       # a record for each byte, all in one segment
            client.sendall(bytes([byte]))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        assert read_answer(stream)[2] == content(77)
        assert s.lardd.counter("LardTlsHandshakes") == 1


def bodies_go_up():
    """By length and in chunks, larger than any buffer, in records of odd sizes."""
    body = content(1000003)
    with site() as s, s.connect() as client:
        stream = client.makefile("rb")
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 7777):
            client.sendall(body[at:at + 7777])
        assert read_answer(stream)[2] == hashlib.sha256(body).hexdigest().encode()
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 5003):
            piece = body[at:at + 5003]
            client.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        client.sendall(b"0\r\n\r\n")
        assert read_answer(stream)[2] == hashlib.sha256(body).hexdigest().encode()
        client.sendall(b"GET /size/9 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(stream)[2] == content(9)


def slow_reader_gets_all():
    """Records that the socket takes in part only, while others are served."""
    with site() as s:
        with s.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.sendall(b"GET /size/12000000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            time.sleep(1)
            assert s.get("/size/5")[2] == content(5)
            assert read_answer(client.makefile("rb"))[2] == content(12000000)


def the_end_is_said():
    """close_notify after an answer; none after one that was cut."""
    with site() as s:
        with s.connect(suppress_ragged_eofs=False) as client:
            client.sendall(b"GET /eof HTTP/1.1\r\nHost: h\r\n\r\n")
            assert receive_all(client).endswith(b"until the end")
        with s.connect(suppress_ragged_eofs=False) as client:
            client.sendall(b"GET /half HTTP/1.1\r\nHost: h\r\n\r\n")
            try:
                while client.recv(65536):
                    pass
                raise AssertionError("a cut answer ends as a whole one does")
            except (ConnectionResetError, ssl.SSLEOFError):
                pass
        with s.connect() as client:                 # it says its end and waits for ours
            client.sendall(b"GET /size/3 HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(client.makefile("rb"))[2] == content(3)
            client.unwrap()
        count_is(s.lardd, "LardAccepted", 3)
        until(lambda: not any(s.lardd.control("status")["connections"].values()), what="no connection")


def what_a_stop_cuts_ends_as_no_answer():
    """What only the end of the connection delimits, in clear text and with TLS, when the time of a stop is over."""
    for tls in (False, True):
        with site() as s, (s.connect(suppress_ragged_eofs=False) if tls else s.lardd.connect()) as client:
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n")
            got = b""
            while not got.endswith(b"a part"):
                got += client.recv(1000)
            s.lardd.process.send_signal(signal.SIGTERM)
            s.lardd.wait_log("event=stopping again=0")
            s.lardd.process.send_signal(signal.SIGTERM)
            try:
                end = client.recv(1000)
                raise AssertionError(f"a cut answer ends as a whole one does, tls {tls}: {end}")
            except (ConnectionResetError, ssl.SSLEOFError):
                pass


def nodes_learn_the_scheme():
    """And not from the client."""
    with site() as s:
        s.get("/size/1", "X-Forwarded-Proto: http\r\n")
        s.lardd.get("/size/1", "x-forwarded-proto: https\r\n")
        seen = [fields["x-forwarded-proto"] for _, _, _, fields, _ in s.lardd.backends[0].seen]
        assert seen == [["https"], ["http"]], seen


def no_name_passes_for_the_scheme_or_the_address():
    """Nor where programs are told of fields by variables, in which '_' stands for '-' and all that is no letter."""
    forged = ("X-Forwarded-Proto", "x_forwarded_proto", "X-Forwarded_Proto", "X_Forwarded_For", "x-forwarded_for",
              "X.Forwarded.Proto", "x-forwarded~proto", "X.Forwarded-For", "x+forwarded|for")
    text = "".join(f"{name}: 192.0.2.7\r\n" for name in (*forged, "X-Forwarded-For", "X_Forwarded"))
    with site() as s:
        s.get("/size/1", text + "Connection: X-Forwarded-For, X-Forwarded-Proto\r\n")
        s.lardd.get("/size/1", text)
        for (_, _, _, fields, _), scheme, addresses in zip(s.lardd.backends[0].seen, ("https", "http"),
                                                           (["127.0.0.1"], ["192.0.2.7", "127.0.0.1"])):
            got = {name: value for name, value in fields.items() if name.startswith("x")}
            assert got == {"x-forwarded-proto": [scheme], "x-forwarded-for": addresses,
                           "x_forwarded": ["192.0.2.7"]}, got


def what_is_agreed_on():
    with site() as s:
        context = s.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        with s.connect(context=context) as client:
            assert client.selected_alpn_protocol() == "http/1.1"
            assert client.version() == "TLSv1.3"
        context.set_alpn_protocols(["h2"])
        failed = 0
        for change in ({}, {"minimum_version": ssl.TLSVersion.TLSv1, "maximum_version": ssl.TLSVersion.TLSv1_1}):
            for key, value in change.items():
                setattr(context, key, value)
            if change:
                context.set_alpn_protocols(["http/1.1"])
                context.set_ciphers("ALL:@SECLEVEL=0")
            try:
                s.connect(context=context).close()
                raise AssertionError(f"a handshake that must fail did not: {change}")
            except ssl.SSLError as error:
                assert "ALERT" in str(error).upper(), error     # it is told, not dropped
            failed += 1
            count_is(s.lardd, "LardTlsFailed", failed)


def the_order_of_ciphers_is_the_servers():
    """Whatever a client would like best, but for ChaCha20: who names that first is slow at AES."""
    wanted = (("ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
               "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
              ("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256",
               "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "CHACHA20"))
    with site() as s:
        for ciphers, suites, best in wanted:
            for version in ("-tls1_2", "-tls1_3"):
                run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", version, "-cipher",
                                      ciphers, "-ciphersuites", suites], input="", capture_output=True, timeout=60,
                                     check=False, text=True)
                agreed = re.search(r"Cipher is (\S+)", run.stdout)[1]
                assert best in agreed.replace("AES_", "AES").replace("_", "-"), (version, ciphers, agreed)


def renegotiation_is_refused():
    with site() as s:
        said = renegotiation(s.port)
        assert b"no renegotiation" in said, said[-500:]
        assert s.get("/size/5")[2] == content(5)


def a_new_key_within_a_request_is_read():
    """Where it is to be handed off, too: with half of it, behind half of it, and more of both."""
    ask = b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n"
    with site(extra="tls-port 8443\nheader-timeout 60s") as s:
        for apart in (False, True):
            for cuts in ((0, 10), (0, 10, 20)):
                with s.tcp() as tcp:
                    tcp.settimeout(20)
                    client = KeyUpdates(tcp)
                    for at, end in zip(cuts, cuts[1:] + (None,)):
                        client.lib.SSL_write(client.ssl, ask[at:end], len(ask[at:end]))
                        if apart:
                            tcp.sendall(client.made())
                            until(lambda: s.lardd.control("status")["connections"]["reading"] == 1, what="it reads")
                        tcp.sendall(client.records(1, 1) if end else client.made())
                    client.read_until(content(5))


def records_without_data_keep_nobody_waiting():
    """A few new keys are fine; who sends nothing else is ended before he has had the worker to himself."""
    with site() as s, s.tcp() as tcp:
        client = KeyUpdates(tcp)
        ask = b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n"
        for _ in range(5):
            tcp.sendall(client.records(10))
            client.lib.SSL_write(client.ssl, ask, len(ask))
            tcp.sendall(client.made())
            client.read_until(content(5))
        flood, heard = client.records(20000), b""
        tcp.settimeout(20)
        with contextlib.suppress(ConnectionError):
            tcp.sendall(flood)
            while got := tcp.recv(65536):
                heard += got
        assert not heard, "all of it was read, and then the request was waited for"
        assert s.get("/size/5")[2] == content(5)


def handshakes_have_their_time():
    """Who says nothing after a byte, or nonsense, goes; others are served meanwhile."""
    with site(extra="handshake-timeout 4s\nheader-timeout 10m") as s:
        with s.tcp() as silent:
            silent.sendall(b"\x16")
            until(lambda: s.lardd.control("status")["connections"]["handshaking"] == 1, what="a handshake")
            assert s.get("/size/5")[2] == content(5)
            assert receive_all(silent) == b""
        count_is(s.lardd, "LardTlsFailed", 1)
        with s.tcp() as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            code, _, body = read_answer(plain.makefile("rb"))
            assert code == 400 and b"HTTPS" in body, (code, body)
            assert receive_all(plain) == b""
        count_is(s.lardd, "LardTlsFailed", 2)
        count_is(s.lardd, "LardTlsHandshakes", 1)


def certificates_go_by_name():
    with site(("one.test", "two.test")) as s:
        for name in s.files:                        # verified against the one that is meant
            assert s.get("/size/5", name=name)[2] == content(5)
        assert s.lardd.counter("LardTlsNameMissed") == 0
        context = s.context("one.test")
        context.check_hostname = False
        with s.connect("three.test", context=context):
            pass                                    # the first, if there is none for it
        count_is(s.lardd, "LardTlsNameMissed", 1)


def reload_reads_certificates_again():
    """And keeps the old ones if one is no good, whose connections go on in any case."""
    with site() as s, s.connect() as kept:
        def works(context):
            assert s.get("/size/5", context=context)[2] == content(5)
        chain, key = s.files["one.test"]
        old, reloads, failures = s.context(), s.lardd.control("status")["reloads"], 0
        good = {path: open(path, "rb").read() for path in (chain, key)}
        other = make_certificate(s.lardd.directory.name, "other.test")

        def refused(word):
            nonlocal failures
            failures += 1
            s.lardd.reload()
            until(lambda: s.lardd.log().count("level=error event=reload") == failures or
                  s.lardd.log().count("event=reload text") == failures, what="the refusal")
            said = [line for line in s.lardd.log().splitlines() if "event=reload" in line]
            assert word in said[-1], said[-3:]
            run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True,
                                 text=True, check=False)
            assert run.returncode == 1 and word in run.stderr, run
            works(old)

        with open(chain, "wb") as file:
            file.write(open(other[0], "rb").read())
        refused("does not fit")
        with open(chain, "wb") as file:
            file.write(b"nonsense")
        refused("no certificate")
        with open(chain, "wb") as file:
            file.write(good[chain])
        is_nobody_elses(key, refused)
        os.rename(key, key + ".away")
        refused("No such file")
        os.rename(key + ".away", key)
        assert s.lardd.control("status")["reloads"] == reloads

        make_certificate(s.lardd.directory.name, "one.test")
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] == reloads + 1, what="the reload")
        works(s.context())
        try:
            works(old)
            raise AssertionError("the old certificate is still shown")
        except ssl.SSLCertVerificationError:
            pass
        kept.sendall(b"GET /size/6 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(kept.makefile("rb"))[2] == content(6)


def directories_of_certificates_are_read_again():
    """As certbot leaves them: one by one, or all that are in one; what comes and goes does so by a reload."""
    with site(("first.test", "zero.test")) as s:
        live = os.path.join(s.lardd.directory.name, "live")

        def put(name):
            place = os.path.join(live, name)
            os.makedirs(place, exist_ok=True)
            s.files[name] = make_certificate(place, name)
            for path, end in zip(s.files[name], ("fullchain.pem", "privkey.pem")):
                os.rename(path, os.path.join(place, end))
            s.files[name] = tuple(os.path.join(place, end) for end in ("fullchain.pem", "privkey.pem"))

        def check(lines):
            s.lardd.configure(f"listen 127.0.0.1:{s.port} tls\n{lines}")
            return subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True, text=True,
                                  check=False)

        def reload(lines):
            before, run = s.lardd.control("status")["reloads"], check(lines)
            assert run.returncode == 0, run
            s.lardd.reload()
            until(lambda: s.lardd.control("status")["reloads"] > before, what="the reload")

        os.mkdir(live)
        everything = f"certificates {live}"
        run = check(everything)
        assert run.returncode and "no directory in it has a fullchain.pem" in run.stderr, run
        put("one.test")
        put("two.test")
        with open(os.path.join(live, "README"), "w", encoding="ascii"):
            pass
        os.mkdir(os.path.join(live, "empty"))
        reload(f"certificate {' '.join(s.files['zero.test'])}\n{everything}")
        for name in "one.test", "two.test", "zero.test":
            assert s.get("/size/5", name=name)[2] == content(5), name
        # It is the first: for whom none is, and the next reload has one more and one less.
        context = s.context("zero.test")
        context.check_hostname = False
        with s.connect("three.test", context=context):
            pass
        put("three.test")
        os.rename(os.path.join(live, "two.test"), os.path.join(live, ".two.test"))
        reload(everything)
        assert s.get("/size/5", name="three.test")[2] == content(5)
        missed = s.lardd.counter("LardTlsNameMissed")
        context = s.context("one.test")
        context.check_hostname = False
        with s.connect("two.test", context=context):
            pass
        count_is(s.lardd, "LardTlsNameMissed", missed + 1)
        reload(f"certificate {live}/three.test")
        assert s.get("/size/5", name="three.test")[2] == content(5)
        # What is wrong in one of them is said, and changes nothing.
        os.remove(s.files["one.test"][1])
        run = check(everything)
        assert run.returncode == 1 and "one.test/privkey.pem" in run.stderr, run
        failed = s.lardd.log().count("event=reload")
        s.lardd.reload()
        until(lambda: s.lardd.log().count("event=reload") > failed, what="the refusal")
        assert s.get("/size/5", name="three.test")[2] == content(5)
        for lines, word in ((f"certificates {live}/none", "No such file"), ("certificates live", "No such file"),
                            ("certificate relative", "must begin with /"),
                            (f"certificate /{'x' * 300}", "longer than 255 bytes"),
                            (f"certificate {live}/three.test\n" * 65, "more than 64 certificates")):
            run = check(lines)
            assert run.returncode == 1 and word in run.stderr, (lines[:100], run)


def an_address_changes_to_tls_and_back():
    """By a reload; with both it is none."""
    with site() as s:
        def reload(lines):
            before = s.lardd.control("status")["reloads"]
            s.lardd.configure(f"certificate {' '.join(s.files['one.test'])}\n{lines}")
            s.lardd.reload()
            until(lambda: s.lardd.control("status")["reloads"] > before, what="the reload")
        reload(f"listen 127.0.0.1:{s.port}")
        with s.tcp() as client:
            client.sendall(b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(client.makefile("rb"))[2] == content(5)
        reload(f"listen 127.0.0.1:{s.port} tls")
        assert s.get("/size/5")[2] == content(5)
        for lines, word in ((f"listen 127.0.0.1:{s.lardd.port} tls", "with and without tls"),
                            ("listen 127.0.0.1:1 tls", "needs a certificate"),
                            ("certificate /a /b /c", "CHAIN-FILE KEY-FILE"),
                            ("ticket-rotation 10ms", "at least 1s")):
            s.lardd.configure(lines)
            run = subprocess.run([LARDD, "-c", s.lardd.config_path, "--check"], capture_output=True,
                                 text=True, check=False)
            assert run.returncode == 1 and word in run.stderr, (lines, run)


def a_key_that_only_root_may_read_serves_until_it_is_given():
    """It is read before lardd becomes its user; a reload says whose it must be, and the old one stays."""
    if os.geteuid():
        raise kit.Skip("needs root")
    with site() as s:
        key, user = s.files["one.test"][1], pwd.getpwnam("nobody").pw_uid
        os.chmod(s.lardd.directory.name, 0o755)
        s.lardd.process.send_signal(signal.SIGTERM)
        assert s.lardd.process.wait(kit.PATIENCE) == 0
        s.configure(s.files, "user nobody")
        s.lardd.start()
        s.lardd.wait_nodes(1)
        assert s.get("/size/5")[2] == content(5)
        s.lardd.reload()
        s.lardd.wait_log("user nobody, as whom lardd reads it, may not")
        assert s.lardd.control("status")["reloads"] == 0
        assert s.get("/size/5")[2] == content(5)
        os.chown(key, user, -1)
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] == 1, what="the reload")
        assert s.get("/size/5")[2] == content(5)


def keys_are_nobody_elses():
    """With TLS from the start or from a reload on, who runs as the same user cannot look into it."""
    if os.geteuid():
        raise kit.Skip("needs root")
    with site() as s:
        user = pwd.getpwnam("nobody").pw_uid
        os.chmod(s.lardd.directory.name, 0o755)
        os.chown(s.files["one.test"][1], user, -1)

        def owner():
            return os.stat(f"/proc/{s.lardd.process.pid}/environ").st_uid

        def start():
            s.lardd.process.send_signal(signal.SIGTERM)
            assert s.lardd.process.wait(10) == 0
            s.lardd.start()
            s.lardd.wait_nodes(1)
        s.lardd.configure("user nobody")
        start()
        assert owner() == user, "without keys it may have core files"
        s.configure(s.files, "user nobody")
        s.lardd.reload()
        until(lambda: s.lardd.control("status")["reloads"] == 1, what="the reload")
        assert s.get("/size/5")[2] == content(5)
        assert owner() == 0, "after a reload"
        start()
        assert s.get("/size/5")[2] == content(5)
        assert owner() == 0, "after a start"


def strangers_break_off_anywhere():
    """A hello that ends at any byte, one bit of it turned, and noise."""
    hello, seed = client_hello(), 18
    chance = random.Random(seed)
    with site() as s:
        tries = [hello[:n] for n in range(1, len(hello), 5)]
        for _ in range(100):
            bad = bytearray(hello)
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            tries += [bytes(bad), b"\x16\x03\x01" + chance.randbytes(500)]
        for data in tries:
            with s.tcp() as stranger:
                stranger.sendall(data)
                if chance.random() < 0.5:           # a reset
                    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: s.lardd.control("status")["connections"]["handshaking"] == 0, what="the end of all")
        assert s.get("/size/5")[2] == content(5)
        count_is(s.lardd, "LardTlsHandshakes", 1)


def memory(lardd, which):
    """In KiB, by its name in proc(5)."""
    with open(f"/proc/{lardd.process.pid}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith(which)))


def no_sanitizer():
    with open(LARDD, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            raise kit.Skip("a sanitizer's own memory is more")


def handshakes_have_little_memory():
    """Who says that his hello is as long as can be is refused or has its place, and no more."""
    no_sanitizer()
    clients, each = 100, 300                        # KiB; the longest hello has 128
    with site(extra="handshake-timeout 60s") as s, contextlib.ExitStack() as stack:
        assert s.get("/size/5")[2] == content(5)
        before = memory(s.lardd, "VmRSS")
        for length in (b"\x01\xff\xff", b"\xff\xff\xff"):     # it may be, and it may not
            for _ in range(clients):
                client = stack.enter_context(s.tcp())
                with contextlib.suppress(OSError):
                    client.sendall(b"\x16\x03\x01\x40\x00\x01" + length + bytes(16380))
                    for _ in range(6):
                        client.sendall(b"\x16\x03\x01\x40\x00" + bytes(16384))
        count_is(s.lardd, "LardTlsFailed", clients)
        assert s.lardd.control("status")["connections"]["handshaking"] == clients
        assert s.get("/size/5")[2] == content(5)
        grown = memory(s.lardd, "VmRSS") - before
        assert grown < clients * each, grown
        print(f"# {grown / clients:.0f} KiB for a handshake with a hello of 112 KiB so far")


def failed_handshakes_have_no_memory():
    """Who has failed is listened to for two seconds more, and is none of max-handshakes: the bound is of all memory."""
    no_sanitizer()
    clients, most = 400, 20000                      # KiB; each has had 112 of hello
    with site(extra="max-handshakes 10") as s, contextlib.ExitStack() as stack:
        assert s.get("/size/5")[2] == content(5)
        before = memory(s.lardd, "VmHWM")
        for _ in range(clients):
            client = stack.enter_context(s.tcp())
            with contextlib.suppress(OSError):
                client.sendall(b"\x16\x03\x01\x40\x00\x01\x01\xff\xff" + bytes(16380) +
                               (b"\x16\x03\x01\x40\x00" + bytes(16384)) * 6 + b"\x99" * 32)
        until(lambda: s.lardd.counter("LardTlsFailed") + s.lardd.counter("LardRecycled") >= clients, what="their end")
        assert s.lardd.counter("LardTlsFailed") > clients / 2, s.lardd.counter("LardTlsFailed")
        grown = memory(s.lardd, "VmHWM") - before
        assert grown < most, grown
        print(f"# {grown} KiB at most for {clients} handshakes that failed")


def reloads_and_takeovers_break_no_handshake():
    with site() as s:
        failed, served, over = [], [], threading.Event()

        def ask():
            context = s.context()
            while not over.is_set():
                try:
                    assert s.get("/size/3000", context=context)[2] == content(3000)
                    served.append(1)
                except Exception as error:          # pylint: disable=broad-except
                    failed.append(repr(error))
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                for _ in range(3):
                    before, reloads = len(served), s.lardd.control("status")["reloads"]
                    s.lardd.reload()
                    until(lambda: s.lardd.control("status")["reloads"] > reloads, what="the reload")
                    until(lambda: len(served) > before + 8 or failed, what="answers")
                before, old = len(served), s.lardd.take_over()
                assert old.wait(60) == 0
                until(lambda: len(served) > before + 8 or failed, what="answers")
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failed, failed[:3]


def handshakes_hold_no_place_for_ever():
    """max-connections counts them, and the oldest goes for one who comes."""
    with site(extra="max-connections 8\nhandshake-timeout 60s\nheader-timeout 60s") as s, \
            contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(s.tcp()).sendall(b"\x16\x03\x01")
        until(lambda: s.lardd.control("status")["connections"]["handshaking"] == 8, what="8 handshakes")
        assert s.get("/size/5")[2] == content(5)
        count_is(s.lardd, "LardRecycled", 1)


def unfinished_handshakes_have_a_bound():
    """Each costs some 50 KB from the first byte on: the oldest goes for a new one, of each worker its share."""
    with site(extra="max-handshakes 40\nworkers 2\nhandshake-timeout 60s") as s, contextlib.ExitStack() as stack:
        s.lardd.take_over().wait(kit.PATIENCE)                # as workers take a restart
        for _ in range(300):
            stack.enter_context(s.tcp()).sendall(b"\x16")
        until(lambda: s.lardd.counter("LardAccepted") >= 300, what="all of them")
        now = s.lardd.control("status")["connections"]["handshaking"]
        assert 20 <= now <= 40, now
        for _ in range(20):
            assert s.get("/size/5")[2] == content(5)
        assert s.lardd.counter("LardRecycled") >= 260


def one_address_has_not_all_the_handshakes():
    """With a limit for each, however many it begins: others find room, and nobody's has to end for it."""
    with site(extra="max-handshakes 40\nmax-connections-per-address 10\nhandshake-timeout 60s") as s, \
            contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(s.tcp()).sendall(b"\x16")
        until(lambda: s.lardd.counter("LardAccepted") >= 60, what="all of them")
        assert s.lardd.control("status")["connections"]["handshaking"] == 10
        count_is(s.lardd, "LardAddressRefused", 50)
        client = socket.create_connection(("127.0.0.1", s.port), timeout=60, source_address=("127.0.0.2", 0))
        with s.context().wrap_socket(client, server_hostname="one.test") as client:
            client.sendall(b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_answer(client.makefile("rb"))[2] == content(5)
        assert s.lardd.counter("LardRecycled") == 0


def tunnels_pass_both_ways():
    with site() as s, s.connect() as client, client.makefile("rb") as stream:
        client.sendall(b"GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                       b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        assert read_answer(stream, head=True)[0] == 101
        for size in (1, 1000, 40000):
            client.sendall(b"a" * size)
            assert stream.read(size) == b"A" * size
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        got = echo_unread(client)
        assert got == content(len(got)).upper()


def echo_unread(client):
    """What comes back of content, read only once nothing more can be sent: records go out in part, and more comes."""
    sent, got, stuck, block = 0, bytearray(), 0, content(2 * 65536)
    end = 1 << 30                                   # so much is in no buffers on the way
    client.setblocking(False)
    while len(got) < end:
        try:
            if sent < end:
                at = sent % 65536
                sent += client.send(block[at:at + min(1000, end - sent)])
                stuck = stuck if stuck == 30 else 0
                continue
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            stuck += stuck < 30
            if stuck < 30:
                time.sleep(0.02)
                continue
            end = min(end, sent + 5000000)
        try:
            got += client.recv(65536)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            time.sleep(0.001)
    return got


def sessions_resume_at_any_worker():
    with site(extra="workers 3") as s:              # which a reload does not change
        s.lardd.take_over().wait(kit.PATIENCE)
        resumed = 0
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = s.context()
            session, reused = session_of(s, context, version)
            assert not reused
            for _ in range(12):
                session, reused = session_of(s, context, version, session)
                assert reused, version
                resumed += 1
            s.lardd.reload()
            until(lambda n=resumed // 12: s.lardd.control("status")["reloads"] == n, what="the reload")
            session, reused = session_of(s, context, version, session)
            assert reused, "not after a reload"
            count_is(s.lardd, "LardTlsResumed", resumed + resumed // 12)


def ticket_keys_rotate():
    with site(extra="ticket-rotation 1s") as s:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = s.context()
            session, _ = session_of(s, context, version)
            time.sleep(2.5)                         # neither this key nor the next is known any more
            session, reused = session_of(s, context, version, session)
            assert not reused, version
        assert s.get("/size/5")[2] == content(5)


def a_refused_reload_leaves_the_tickets():
    """How long they hold, too."""
    with site() as s:
        context = s.context()
        session, _ = session_of(s, context, ssl.TLSVersion.TLSv1_3)
        chain, key = s.files["one.test"]
        s.lardd.configure(f"listen 127.0.0.1:{s.port} tls\ncertificate {chain} {key}\ncertificate {chain} {chain}\n"
                          "ticket-rotation 1s")
        s.lardd.reload()
        s.lardd.wait_log("level=error event=reload")
        time.sleep(2.5)                             # a key of 1 s is not known any more
        assert session_of(s, context, ssl.TLSVersion.TLSv1_3, session)[1]


if __name__ == "__main__":
    sys.exit(main([answers_come_whole, kept_connections_and_pipelines_go_on, bodies_go_up, slow_reader_gets_all,
                   the_end_is_said, what_a_stop_cuts_ends_as_no_answer, nodes_learn_the_scheme,
                   no_name_passes_for_the_scheme_or_the_address, what_is_agreed_on,
                   the_order_of_ciphers_is_the_servers, renegotiation_is_refused,
                   handshakes_have_their_time, certificates_go_by_name, reload_reads_certificates_again,
                   directories_of_certificates_are_read_again,
                   an_address_changes_to_tls_and_back, handshakes_hold_no_place_for_ever,
                   unfinished_handshakes_have_a_bound, one_address_has_not_all_the_handshakes, tunnels_pass_both_ways,
                   sessions_resume_at_any_worker, ticket_keys_rotate, a_refused_reload_leaves_the_tickets,
                   a_key_that_only_root_may_read_serves_until_it_is_given, keys_are_nobody_elses,
                   strangers_break_off_anywhere,
                   handshakes_have_little_memory, failed_handshakes_have_no_memory,
                   reloads_and_takeovers_break_no_handshake,
                   a_new_key_within_a_request_is_read, records_without_data_keep_nobody_waiting]))
