#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""HTTPS: handshake, bytes both ways, certificates by name, reload, tickets, strangers."""
import contextlib
import multiprocessing
import os
import pwd
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "../../../../lard/tests/lib")]
from flashtest import FLASH, Client, children, equal, free_port, main, wait_for    # noqa: E402
from pki import Authority, renegotiation      # noqa: E402
from secured import SIZES, VERSIONS, Secured, content, make_certificate, same     # noqa: E402
from keyupdates import KeyUpdates        # noqa: E402

warnings.filterwarnings("ignore", category=DeprecationWarning)        # TLS 1.0 is what is refused

KINDS = ("architecture amped", "architecture amped\ntransfer mmap", "architecture sped", "events io_uring",
         "architecture mp\nprocesses 4", "architecture mt\nthreads 4", "chunk 4k\nmemory_cache 0", "ktls off")


def bodies_come_whole_in_every_architecture():
    """By 1.2 and 1.3, from memory and from files, on one connection."""
    for kind in KINDS:
        with Secured(kind).start() as s:
            for version in VERSIONS:
                c = s.secure(s.context(version))
                for size in SIZES:
                    same(c.get(f"/size/{size}").body, content(size), f"{kind} {version} {size}")
                equal(c.get("/size/4096", method="HEAD")["content-length"], "4096")
                equal(c.get("/none").status, 404)
                c.close()


def pipelines_ranges_and_posts_go_on():
    with Secured().start() as s:
        c = s.secure()
        ask = "GET /size/%d HTTP/1.1\r\nHost: h\r\n\r\n"
        sizes = [size for size in SIZES if size < 200000] * 3
        c.send("".join(ask % n for n in sizes))
        for n in sizes:
            same(c.response().body, content(n), n)
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for byte in (ask % 64).encode():            # a record for each byte, in one segment
            c.send(bytes([byte]))
        c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        same(c.response().body, content(64), "bytes")
        r = c.get("/size/1048576", "Range: bytes=1000-500999")
        equal(r.status, 206)
        same(r.body, content(1 << 20)[1000:501000], "range")
        r = c.get("/size/100000", "Range: bytes=0-9,50000-50009")
        assert content(100000)[50000:50010] in r.body and r.status == 206
        equal(c.get("/size/64", method="DELETE").status, 405)


def programs_are_asked_and_learn_the_scheme():
    """POST with a body of many records, an answer without a length, and what the program is told."""
    script = "#!/bin/sh\nif [ \"$REQUEST_METHOD\" = POST ]; then\n  printf 'Content-Type: text/plain\\n\\n'; cat\n" \
             "else\n  printf 'Content-Type: text/plain\\n\\n%s %s' \"$HTTPS\" \"$REQUEST_SCHEME\"\nfi\n"
    with Secured("max_body 4M\ncgi /cgi/ @DIR@/cgi") as s:
        os.mkdir(os.path.join(s.dir, "cgi"))
        with open(os.path.join(s.dir, "cgi", "echo"), "w", encoding="ascii") as f:
            f.write(script)
        os.chmod(f.name, 0o755)
        s.start()
        body = content(1000003)
        for version in VERSIONS:
            c = s.secure(s.context(version))
            equal(c.get("/cgi/echo").body, b"on https")
            c.send(b"POST /cgi/echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                   % len(body))
            c.send(body)
            same(c.response().body, body, version)
            equal(c.get("/cgi/echo").body, b"on https")
        equal(s.get("/cgi/echo").body, b" http")


def a_slow_reader_gets_all_and_a_deaf_one_goes():
    with Secured("send_timeout 600s\nsend_buffer 64k").start() as s:
        c = s.secure()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.send("GET /size/10000019 HTTP/1.1\r\nHost: h\r\n\r\n")
        time.sleep(1)
        same(s.secure().get("/size/64").body, content(64), "another")
        same(c.response().body, content(10000019), "slow")
    with Secured("send_timeout 2s\nsend_buffer 64k").start() as s:
        c = s.secure()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.send("GET /size/10000019 HTTP/1.1\r\nHost: h\r\n\r\n")
        s.count_is("timeouts_send", 1)
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            assert len(c.rest()) < 10000019, "what was cut came whole"


def the_end_is_said():
    """close_notify after an answer and to who says his own; none after one that was cut."""
    with Secured("cgi /cgi/ @DIR@/cgi\nkeepalive_timeout 3s") as s:
        os.mkdir(os.path.join(s.dir, "cgi"))
        with open(os.path.join(s.dir, "cgi", "cut"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\na part'\nexec sleep 1000\n")
        os.chmod(f.name, 0o755)
        s.extra += "\napp_timeout 6s"
        s.configure()
        s.start()
        for ask in ("GET /size/10000019 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                    "GET /size/64 HTTP/1.0\r\n\r\n", "nonsense\r\n\r\n", "GET /size/1 HTTP/1.1\r\nHost: h\r\n\r\n"):
            c = s.secure(suppress_ragged_eofs=False)
            c.send(ask)
            assert c.rest().startswith(b"HTTP/1.1 "), ask       # SSLEOFError, if it is not said
        c = s.secure(suppress_ragged_eofs=False)
        c.get("/size/64")
        c.sock.unwrap()
        c = s.secure(suppress_ragged_eofs=False)
        c.send("GET /cgi/cut HTTP/1.0\r\n\r\n")
        try:
            c.rest()
            raise AssertionError("a cut answer ends as a whole one does")
        except (ConnectionResetError, ssl.SSLEOFError):
            pass


def what_is_agreed_on():
    """1.2 with forward secrecy and AEAD, or 1.3; HTTP/1.1; no renegotiation."""
    with Secured(names=("one.test", "two.test rsa")).start() as s:
        context = s.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        equal(s.secure(context).sock.selected_alpn_protocol(), "http/1.1")
        context.set_alpn_protocols(["h2"])
        for bad in (lambda: s.secure(context), lambda: s.secure(old), lambda: s.secure(cbc)):
            old, cbc = s.context(), s.context(VERSIONS[0])
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            cbc.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA")
            try:
                bad()
                raise AssertionError("it was agreed on")
            except (ssl.SSLError, ConnectionResetError):
                pass
        for name in ("one.test", "two.test"):
            for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"):
                context = s.context(VERSIONS[0])
                context.set_ciphers(("ECDHE-ECDSA-" if name == "one.test" else "ECDHE-RSA-") + cipher)
                same(s.secure(context, name).get("/size/100000").body, content(100000), cipher)
        said = renegotiation(s.tls_port)
        assert b"no renegotiation" in said, said[-400:]


def certificates_go_by_name_and_reload():
    """A connection made before the reload goes on; a bad file is refused, and the former stays."""
    with Secured(names=("one.test", "two.test rsa")).start() as s:
        for name in ("one.test", "two.test"):
            same(s.secure(name=name).get("/size/64").body, content(64), name)
        context = s.context()
        context.check_hostname = False
        with contextlib.suppress(ssl.SSLError):
            equal(s.secure(context, "three.test").sock.getpeercert()["subject"][0][0][1], "one.test")
        s.count_is("tls_name_missed", 1)
        before = s.secure()
        before.send("GET /size/64 HTTP/1.1\r\nHost: h\r\n")
        s.certificates.append(make_certificate(s.dir, "three.test"))
        s.configure()
        s.proc.send_signal(signal.SIGHUP)
        wait_for(lambda: answers(s, "three.test"))
        before.send("\r\n")
        same(before.response().body, content(64), "over the reload")
        os.chmod(os.path.join(s.certificates[2], "privkey.pem"), 0o644)
        s.reload(refused=True)
        assert "others may read the key" in s.stderr(), s.stderr()
        assert answers(s, "three.test")


def answers(s, name):
    """With a certificate for this name."""
    try:
        return s.secure(name=name).get("/size/64").body == content(64)
    except ssl.SSLError:
        return False


def a_name_may_have_certificates_of_two_kinds():
    """The first that the client can verify is shown: by its signature algorithms, and for 1.2 its ciphers."""
    with Secured(names=("one.test", "one.test rsa")).start() as s:
        for flags, kind in (([], b"ECDSA"), (["-sigalgs", "RSA-PSS+SHA256:RSA+SHA256"], b"RSA"),
                            (["-tls1_2", "-sigalgs", "RSA+SHA256"], b"RSA"),
                            (["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"], b"RSA"),
                            (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], b"ECDSA"),
                            (["-tls1_2"], b"ECDSA")):
            got = subprocess.run(["openssl", "s_client", "-servername", "one.test", *flags, "-connect",
                                  f"127.0.0.1:{s.tls_port}"], input=b"", capture_output=True, timeout=60, check=False)
            assert b"Peer signature type: " + kind in got.stdout, (flags, got.stdout[-1500:], got.stderr[-300:])


def reloads_break_no_handshake():
    """One that was begun before is ended by who began it, and its request is served."""
    with Secured("drain_timeout 100s\nhandshake_timeout 100s\ndefer_accept off").start() as s:
        for version in VERSIONS:
            tcp, into, out = s.tcp(), ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = s.context(version).wrap_bio(into, out, server_hostname="one.test")
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            hello = out.read()
            tcp.sendall(hello[:100])
            wait_for(lambda: (n := s.counters())["accepted"] - n["closed"] > 1)       # who asks is one
            before = s.proc.pid, children(s.proc.pid)
            s.proc.send_signal(signal.SIGHUP)
            wait_for(lambda b=before: len(set(children(s.proc.pid)) - set(b[1])) > 0)
            time.sleep(0.5)
            tcp.sendall(hello[100:])
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    tcp.sendall(out.read())
                    data = tcp.recv(65536)
                    assert data, version
                    into.write(data)
            tls.write(b"GET /size/64 HTTP/1.1\r\nHost: h\r\n\r\n")
            tcp.sendall(out.read())
            got = b""
            while not got.endswith(content(64)):
                try:
                    got += tls.read(65536)
                except ssl.SSLWantReadError:
                    data = tcp.recv(65536)
                    assert data, (version, got)
                    into.write(data)


def a_directory_of_certificates_is_read():
    with Secured() as s:
        live = os.path.join(s.dir, "live")
        os.mkdir(live)
        s.certificates = [make_certificate(live, name) for name in ("one.test", "two.test")]
        s.extra = f"certificates {live}"
        s.configure(["#"])
        s.config = s.config.replace("certificate #\n", "")
        s.start()
        for name in ("one.test", "two.test"):
            assert answers(s, name), name
        equal(subprocess.run(s.command() + ["--check"], check=False).returncode, 0)
        os.remove(os.path.join(live, "two.test", "privkey.pem"))
        got = subprocess.run(s.command() + ["--check"], check=False, capture_output=True)
        assert got.returncode and b"privkey.pem" in got.stderr, got.stderr


def stapled(s, version):
    """Does a client that asks get a response, and is that good?"""
    run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.tls_port}", "-servername", "one.test",
                          "-status", version], input=b"", capture_output=True, timeout=60, check=False)
    assert (b"Cert Status: good" in run.stdout) != (b"OCSP response: no response sent" in run.stdout), run
    return b"Cert Status: good" in run.stdout


def responses_are_stapled_and_read_again():
    """From a file that is named or in the directory; one that is no good is not, and says so once."""
    with Secured() as s:
        authority = Authority(s.dir)
        path = os.path.join(s.dir, "live")
        os.mkdir(path)
        chain, ocsp = os.path.join(path, "fullchain.pem"), os.path.join(path, "ocsp.der")
        for made, name in zip(authority.issue("one.test"), ("fullchain.pem", "privkey.pem")):
            os.rename(made, os.path.join(path, name))
            os.chmod(os.path.join(path, name), 0o600)
        s.configure([path])
        s.start()
        assert not stapled(s, "-tls1_3")
        equal(s.count("tls_unstapled"), 0)              # none is named
        with open(ocsp, "wb") as f:
            f.write(b"nonsense")
        s.reload()
        assert not stapled(s, "-tls1_3") and s.stderr().count("ocsp.der") == 1, s.stderr()
        s.count_is("tls_unstapled", 1)
        authority.ocsp(chain, ocsp)
        s.reload()
        assert stapled(s, "-tls1_2") and stapled(s, "-tls1_3")
        s.count_is("tls_stapled", 2)
        s.configure([f"{chain} {path}/privkey.pem ocsp {ocsp}"])
        s.reload()
        assert stapled(s, "-tls1_3")


def session_of(s, context, session=None):
    """A session, after a request, and whether it resumed the one given."""
    c = s.secure(context, session=session)
    same(c.get("/size/64").body, content(64), "resumed")
    result = c.sock.session, c.sock.session_reused
    c.close()
    return result


def sessions_resume_at_any_worker_and_over_a_reload():
    with Secured("workers 3").start() as s:
        for version in VERSIONS:
            context = s.context(version)
            session, reused = session_of(s, context)
            assert not reused
            for _ in range(12):
                session, reused = session_of(s, context, session)
                assert reused, version
            s.reload()
            session, reused = session_of(s, context, session)
            assert reused, "not after a reload"


def ticket_keys_rotate_and_come_from_a_file():
    with Secured("ticket_rotation 1s").start() as s:
        for version in VERSIONS:
            context = s.context(version)
            session, _ = session_of(s, context)
            time.sleep(2.5)                         # neither this key nor the next is known any more
            assert not session_of(s, context, session)[1], version
    with Secured() as s:
        keys = [os.urandom(80).hex() for _ in range(2)]
        s.extra = f"ticket_keys {s.dir}/tickets"
        s.configure()

        def use(*lines):
            with open(f"{s.dir}/tickets", "w", encoding="ascii") as f:
                f.write("\n".join(lines) + "\n")
            os.chmod(f.name, 0o600)

        use(keys[0])
        s.start()
        context = s.context(VERSIONS[1])
        session, _ = session_of(s, context)
        use(keys[1], keys[0])
        s.reload()
        session, reused = session_of(s, context, session)
        assert reused, "the second key is not known"
        use(keys[1])
        s.reload()
        session, reused = session_of(s, context, session)
        assert reused, "no new ticket was made with the first key"
        use(keys[0])
        s.reload()
        assert not session_of(s, context, session)[1], "a key that is gone is known"
        s.count_is("tls_ticket_unknown", 1)


def records_without_data_keep_nobody_waiting():
    """A few new keys are fine; who sends nothing else is ended before he has had the worker to himself."""
    with Secured().start() as s, s.tcp() as tcp:
        client = KeyUpdates(tcp)
        for both in (0, 1, 0, 1):
            tcp.sendall(client.records(5, both))
            same(client.get("/size/100000", 100000), content(100000), both)
        flood, heard = client.records(20000), b""
        tcp.settimeout(60)
        with contextlib.suppress(ConnectionError):
            tcp.sendall(flood)
            while got := tcp.recv(65536):
                heard += got
        assert not heard, "all of it was read, and then the request was waited for"
        same(s.secure().get("/size/64").body, content(64), "another")


def handshakes_have_their_time():
    """Who says nothing after a byte goes; others are served meanwhile."""
    with Secured("handshake_timeout 4s\nheader_timeout 600s\ndefer_accept off").start() as s:
        with s.tcp() as silent, s.tcp() as mute:
            silent.sendall(b"\x16")
            same(s.secure().get("/size/64").body, content(64), "another")
            equal(silent.recv(100), b"")
            equal(mute.recv(100), b"")
        s.count_is("timeouts_handshake", 2)
        s.count_is("tls_failed", 2)
        s.count_is("tls_handshakes", 1)


def handed(s, part):
    """Bytes one by one, each before anybody would think that none comes; how long it took until it was over."""
    s.settimeout(0.2)
    began = time.monotonic()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        for byte in part:
            s.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                s.recv(1)                   # 408, an alert or the end
                break
    return time.monotonic() - began


def one_record(s, tcp, data):
    """After a handshake by 1.2, which leaves no ticket to be read."""
    came, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = s.context(VERSIONS[0]).wrap_bio(came, sent, server_hostname="one.test")
    while True:
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            tcp.sendall(sent.read())
            came.write(tcp.recv(65536))
    client.write(data)
    return sent.read()


def who_comes_byte_by_byte_has_no_more_time():
    """In a handshake, in the record of a request, in a request of many records; where one process serves one, too."""
    for kind in ("architecture amped", "architecture mp\nprocesses 1", "architecture mt\nthreads 1"):
        with Secured(f"{kind}\nhandshake_timeout 1s\nheader_timeout 1s\ndefer_accept off").start() as s:
            with s.tcp() as tcp:
                took = handed(tcp, client_hello()[:60])
                assert took < 4, f"{kind}: a handshake, {took} s"
            with s.tcp() as tcp:
                took = handed(tcp, one_record(s, tcp, b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 60))
                assert took < 4, f"{kind}: a record, {took} s"
            c = s.secure()
            took = handed(c.sock, b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 60)
            assert took < 4, f"{kind}: records, {took} s"
            same(s.secure().get("/size/64").body, content(64), kind)


def asks_without_end(port, context, stop):
    """In a process of its own: requests as fast as they go, whose answers are thrown away."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        if context:
            s = context.wrap_socket(s, server_hostname="one.test")

        def read():
            with contextlib.suppress(OSError):
                while s.recv(1 << 20):
                    pass
        threading.Thread(target=read, daemon=True).start()
        with contextlib.suppress(OSError):
            while not stop.is_set():
                s.sendall(b"HEAD /size/1 HTTP/1.1\r\nHost: h\r\n\r\n" * 2000)


def who_asks_without_end_leaves_others_their_turn():
    """Two, in clear text or by TLS: a third is not served when they pause, but all along."""
    fork = multiprocessing.get_context("fork")
    with Secured("workers 1").start() as s:
        for port, context in ((s.port, None), (s.tls_port, s.context())):
            stop, times = fork.Event(), []
            pumps = [fork.Process(target=asks_without_end, args=(port, context, stop)) for _ in range(2)]
            for pump in pumps:
                pump.start()
            time.sleep(1)
            for _ in range(20):
                began = time.monotonic()
                same(s.get("/size/64", "Connection: close").body, content(64), "a third")
                times.append(time.monotonic() - began)
                time.sleep(0.05)
            stop.set()
            for pump in pumps:
                pump.join()
            times.sort()
            print(f"# median {times[10] * 1000:.1f} ms, longest {times[-1] * 1000:.0f} ms")
            assert times[10] < 0.1, times


def unfinished_handshakes_have_a_bound():
    """The oldest goes, and who is served stays."""
    with Secured("max_handshakes 8\nhandshake_timeout 600s\ndefer_accept off").start() as s:
        c = s.secure()
        c.get("/size/64")
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(s.tcp()) for _ in range(40)]
            for i in idle:
                with contextlib.suppress(ConnectionError):
                    i.sendall(b"\x16")
            s.count_is("tls_failed", 32)
            for i in idle[:20]:
                with contextlib.suppress(ConnectionResetError):
                    equal(i.recv(1), b"")
            same(c.get("/size/64").body, content(64), "kept")
            same(s.secure().get("/size/64").body, content(64), "new")


def client_hello():
    """What a client sends first."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="one.test").do_handshake()
    return sent.read()


def strangers_break_off_anywhere():
    """Plain HTTP is told so in HTTP; garbage and pieces of a handshake end, and nobody else is kept waiting."""
    with Secured("defer_accept off").start() as s:
        plain = Client(s.tls_port)
        r = plain.get("/")
        assert r.status == 400 and b"HTTPS" in r.body, r
        assert plain.closed()
        hello = client_hello()
        bad = 1
        for data in (b"\0" * 5000, os.urandom(3000), b"\x16\x03\x01\xff\xff" + b"x" * 20000,
                     hello[:5] + b"\0" * (len(hello) - 5), b"SSH-2.0-x\r\n" * 9):
            with s.tcp() as t:
                with contextlib.suppress(ConnectionError):
                    t.sendall(data)
                    t.shutdown(socket.SHUT_WR)
                    while t.recv(1000):
                        pass
                bad += 1
        for cut in range(0, len(hello), 29):
            with s.tcp() as t:
                t.sendall(hello[:cut])
            bad += 1
        same(s.secure().get("/size/64").body, content(64), "after")
        s.count_is("tls_failed", bad)
        s.count_is("tls_handshakes", 1)


class Between:
    """Records of a connection that has gone through its handshake, before they are sent."""

    def __init__(self, s, version):
        self.tcp, self.into, self.out = s.tcp(), ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = s.context(version).wrap_bio(self.into, self.out, server_hostname="one.test")
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.tcp.sendall(self.out.read())
                self.into.write(self.tcp.recv(65536))
        self.tcp.sendall(self.out.read())

    def record(self, text):
        """It is made, and not sent."""
        self.tls.write(text)
        return self.out.read()

    def heard(self):
        """All that can be read until the end."""
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while data := self.tcp.recv(65536):
                self.into.write(data)
        self.into.write_eof()
        with contextlib.suppress(ssl.SSLError):
            while data := self.tls.read(65536):
                got += data
        return got


def records_that_are_not_as_they_were_sent_end_it():
    """Truncated, twice, in another order, or changed: no answer is made of them."""
    first, second = b"GET /size/64 HTTP/1.1\r\n", b"Host: h\r\n\r\n"
    with Secured().start() as s:
        for version in VERSIONS:
            for what in ("whole", "twice", "order", "changed", "cut"):
                b = Between(s, version)
                r = [b.record(first), b.record(second)]
                sent = {"whole": r, "twice": [r[0], r[0], r[1]], "order": r[::-1],
                        "changed": [r[0], r[1][:-1] + bytes([r[1][-1] ^ 1])], "cut": [r[0], r[1][:-1]]}[what]
                b.tcp.sendall(b"".join(sent))
                if what == "whole":
                    while True:
                        b.into.write(b.tcp.recv(65536))
                        with contextlib.suppress(ssl.SSLWantReadError):
                            assert b.tls.read(100000).startswith(b"HTTP/1.1 200"), version
                            break
                    continue
                with contextlib.suppress(OSError):
                    b.tcp.shutdown(socket.SHUT_WR)
                equal(b.heard(), b"", f"{version} {what}")
        equal(s.count("responses_2xx"), len(VERSIONS))


def clear_text_leads_to_https():
    with Secured("hsts 31536000 include-subdomains\nhttps_redirect acme on\n") as s:
        clear = free_port()
        s.extra += f"listen 127.0.0.1:{clear} redirect"
        s.configure()
        s.write(".well-known/acme-challenge/token_1", "proof")
        s.start()
        r = Client(clear).get("/a%20b?c=d", "X: y")
        equal((r.status, r["location"]), (421, None))
        ask = "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n"
        r = Client(clear).send(ask % ("GET", "/a%20b?c=d", "one.test:80")).response()
        equal((r.status, r["location"]), (308, f"https://one.test:{s.tls_port}/a%20b?c=d"))
        equal(r["strict-transport-security"], None)
        r = Client(clear).send(ask % ("GET", "/.well-known/acme-challenge/token_1", "one.test")).response()
        equal((r.status, r.body), (200, b"proof"))
        r = Client(clear).send(ask % ("GET", "/.well-known/acme-challenge/../../x", "one.test")).response()
        equal(r.status, 308)
        c = s.secure()
        for path in ("/size/64", "/size/1048576", "/none", "/size/"):
            for fields in ((), ("Range: bytes=0-3",), ("If-None-Match: *",)):
                r = c.get(path, *fields)
                equal(r["strict-transport-security"], "max-age=31536000; includeSubDomains", path)
        equal(s.get("/size/64")["strict-transport-security"], None)


def what_cannot_be_is_refused():
    """Each with a reason."""
    with Secured() as s:
        chain, key = (os.path.join(s.certificates[0], n) for n in ("fullchain.pem", "privkey.pem"))
        other = os.path.join(make_certificate(s.dir, "other.test"), "privkey.pem")
        for lines, why in ((["listen 1 tls"], "needs a certificate"),
                           (["listen 1 redirect"], "needs an address with tls"),
                           (["listen 1 tls", "listen 1", f"certificate {chain} {key}"], "in two ways"),
                           (["listen 1 tsl"], "takes an address"),
                           (["listen 1 tls", f"certificate {chain} {other}"], "does not fit"),
                           (["listen 1 tls", f"certificate {key} {key}"], "no certificate"),
                           (["listen 1 tls", f"certificate {chain}.x {key}"], "No such file"),
                           (["certificate a b"], "must begin with /"), (["certificate a b c"], "a certificate is"),
                           (["hsts 5 preload"], "preload needs"), (["https_redirect status 302"], "has no"),
                           (["ticket_rotation 0s"], "cannot be")):
            with open(os.path.join(s.dir, "bad"), "w", encoding="ascii") as f:
                f.write("\n".join(lines + [f"root {s.root}\n"]))
            got = subprocess.run([FLASH, "--check", "--config", f.name], capture_output=True, check=False)
            assert got.returncode == 1 and why in got.stderr.decode(), (lines, got)
            if lines[0].startswith("listen") and len(lines) == 1:
                name, value = lines[0].split(" ", 1)
                got = subprocess.run([FLASH, "--check", "--" + name, value, "--root", s.root], capture_output=True,
                                     check=False)
                assert got.returncode == 1 and why in got.stderr.decode(), (lines, got)


def keys_are_nobody_elses():
    """Programs that run as the same user cannot look into a worker."""
    if os.geteuid():
        return "only root can become another user"
    nobody = pwd.getpwnam("nobody").pw_uid
    for start_as in (0, nobody):
        with Secured("user nobody", args=("--user", "nobody")) as s:
            s.preexec = lambda uid=start_as: os.setuid(uid)
            for path in (s.dir, s.root):
                os.chmod(path, 0o755)
            for name in ("fullchain.pem", "privkey.pem"):
                os.chown(os.path.join(s.certificates[0], name), start_as, 0)
            s.start()
            same(s.secure().get("/size/64").body, content(64), "as nobody")
            for pid in children(s.proc.pid) + ([s.proc.pid] if start_as else []):
                with open(f"/proc/{pid}/status", encoding="ascii") as f:
                    assert f"\nUid:\t{nobody}\t" in f.read()
                equal(os.stat(f"/proc/{pid}/environ").st_uid, 0)
            # No TLS any more, but a worker has to finish, and the master has the keys of those that do.
            c, before = s.secure(), set(children(s.proc.pid))
            c.send("GET /size/10000019 HTTP/1.1\r\nHost: h\r\n\r\n")
            s.config = "status /status\n"
            s.command()
            s.proc.send_signal(signal.SIGHUP)
            wait_for(lambda: set(children(s.proc.pid)) - before and s.get("/status").status == 200)
            for pid in set(children(s.proc.pid)) - before:
                equal(os.stat(f"/proc/{pid}/environ").st_uid, 0)
            same(c.response().body, content(10000019), "kept")
            c.close()
    return None


def curl_and_s_client_are_served():
    with Secured().start() as s:
        for flags in ([], ["--tls-max", "1.2"]):
            got = subprocess.run(["curl", "-sS", *flags, "--cacert", os.path.join(s.certificates[0], "fullchain.pem"),
                                  "--resolve", f"one.test:{s.tls_port}:127.0.0.1",
                                  *(f"https://one.test:{s.tls_port}/size/{n}" for n in SIZES)],
                                 capture_output=True, check=True, timeout=120)
            same(got.stdout, b"".join(map(content, SIZES)), flags)
        got = subprocess.run(["openssl", "s_client", "-quiet", "-ign_eof", "-connect", f"127.0.0.1:{s.tls_port}"],
                             input=b"GET /size/64 HTTP/1.0\r\n\r\n", capture_output=True, check=False, timeout=60)
        assert got.stdout.endswith(content(64)), got


if __name__ == "__main__":
    main([bodies_come_whole_in_every_architecture, pipelines_ranges_and_posts_go_on,
          programs_are_asked_and_learn_the_scheme, a_slow_reader_gets_all_and_a_deaf_one_goes, the_end_is_said,
          what_is_agreed_on, certificates_go_by_name_and_reload, a_name_may_have_certificates_of_two_kinds,
          reloads_break_no_handshake, a_directory_of_certificates_is_read, responses_are_stapled_and_read_again,
          sessions_resume_at_any_worker_and_over_a_reload, ticket_keys_rotate_and_come_from_a_file,
          records_without_data_keep_nobody_waiting, handshakes_have_their_time, who_comes_byte_by_byte_has_no_more_time,
          who_asks_without_end_leaves_others_their_turn, unfinished_handshakes_have_a_bound,
          strangers_break_off_anywhere, records_that_are_not_as_they_were_sent_end_it, clear_text_leads_to_https,
          what_cannot_be_is_refused, keys_are_nobody_elses, curl_and_s_client_are_served])
