#!/usr/bin/env python3
# timeout: 300
"""Programs behind flash: CGI and FastCGI, their bodies, failures and time-outs."""
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import Client, Server, children, cpu_seconds, equal, main, wait_for  # noqa: E402

ARCHITECTURE = os.environ.get("FLASH_ARCHITECTURE", "amped")
server = Server("--architecture", ARCHITECTURE, "--processes", "4", "--threads", "4",
                "--max-body", "256k", "--access-log", "/dev/null",
                *os.environ.get("FLASH_ARGS", "").split(), config="""
cgi /cgi/ @DIR@/cgi
fastcgi /app/ exec:@DIR@/fcgi 1
fastcgi *.fpage exec:@DIR@/fcgi 1
fastcgi /dead/ unix:@DIR@/nothing
status /status
""")

SCRIPTS = {
    "env": "#!/bin/sh\necho 'Content-Type: text/plain'\necho\nenv\n",
    "cat": "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n"
           "echo \"$CONTENT_LENGTH $CONTENT_TYPE\"\ncat\n",
    "status": "#!/bin/sh\necho 'Status: 418 Short And Stout'\necho 'X-A: b'\necho\necho tea\n",
    "length": "#!/bin/sh\nprintf 'Content-Length: 5\\n\\nhello'\n",
    "short": "#!/bin/sh\nprintf 'Content-Length: 50\\n\\nhello'\n",
    "stuck": "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\na part'\nexec sleep 30\n",
    "jump": "#!/bin/sh\nprintf 'Location: http://else/\\n\\n'\n",
    "silent": "#!/bin/sh\nexit 0\n",
    "garbage": "#!/bin/sh\necho no header here\necho\n",
    "hang": "#!/bin/sh\nsleep 60\n",
    "big": "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'\nhead -c 3000000 /dev/zero\n",
    "none": "#!/bin/sh\nprintf 'Status: 204 Fine\\nX: y\\n\\n'\n",
}


def prepare():
    """Programs for all tests."""
    os.mkdir(os.path.join(server.dir, "cgi"))
    scripts = {"cgi/" + k: v for k, v in SCRIPTS.items()}
    scripts["fcgi"] = "#!/bin/sh\nexec %s %s\n" % (
        sys.executable, os.path.join(HERE, "..", "lib", "fcgi_app.py"))
    for name, text in scripts.items():
        path = os.path.join(server.dir, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    with open(os.path.join(server.dir, "cgi/plain"), "w", encoding="ascii") as f:
        f.write("not a program")
    server.write("file", "file")
    server.start()


def impatient(seconds=2):
    """Another one, which waits for the same programs for so long."""
    return Server("--architecture", ARCHITECTURE, "--processes", "4", "--threads", "4",
                  "--app-timeout", "%ds" % seconds, *os.environ.get("FLASH_ARGS", "").split(),
                  config="cgi /cgi/ %s/cgi\nfastcgi /app/ exec:%s/fcgi 1\n" % (server.dir, server.dir))


def variables(r):
    """Lines NAME=VALUE of a body."""
    return dict(line.split("=", 1) for line in r.body.decode("latin-1").splitlines() if "=" in line)


def post(path, body, *headers):
    """A request with a body."""
    c = server.client()
    head = ["POST %s HTTP/1.1" % path, "Host: test", "Content-Length: %d" % len(body)]
    c.send("\r\n".join(head + list(headers)) + "\r\n\r\n")
    return c.send(body).response()


def a_cgi_program_gets_its_environment():
    r = server.get("/cgi/env/more/path?a=b&c", "X-Some-Thing: v1", "Proxy: evil", "X_Y: z")
    equal((r.status, r["content-type"], r["transfer-encoding"]), (200, "text/plain", "chunked"))
    env = variables(r)
    for name, value in (("SCRIPT_NAME", "/cgi/env"), ("PATH_INFO", "/more/path"),
                        ("QUERY_STRING", "a=b&c"), ("REQUEST_METHOD", "GET"),
                        ("SERVER_PORT", str(server.port)), ("REMOTE_ADDR", "127.0.0.1"),
                        ("HTTP_X_SOME_THING", "v1"), ("GATEWAY_INTERFACE", "CGI/1.1"),
                        ("REQUEST_URI", "/cgi/env/more/path?a=b&c"), ("CONTENT_LENGTH", "0")):
        equal(env.get(name), value, name)
    assert "HTTP_PROXY" not in env and "HTTP_X_Y" not in env, env


def a_name_of_the_environment_stands_for_one_name_of_the_request():
    for path in ("/cgi/env", "/app/"):
        r = server.get(path, "X-Forwarded-For: 1.1.1.1", "Cookie: a=1", "x-forwarded-for:2.2.2.2 ", "cookie: b=2",
                       "X.Forwarded.For: evil", "X_Forwarded_For: evil", "X'A: evil", "X-Forwarded-For: 3.3.3.3",
                       "X-Empty:", "X-Empty: ", "A: b")
        lines = [line for line in r.body.decode("latin-1").splitlines() if line.startswith("HTTP_")]
        equal(sorted(lines), ["HTTP_A=b", "HTTP_COOKIE=a=1; b=2", "HTTP_HOST=test",
                              "HTTP_X_EMPTY=, ", "HTTP_X_FORWARDED_FOR=1.1.1.1, 2.2.2.2, 3.3.3.3"], path)


def a_cgi_program_gets_its_body():
    body = os.urandom(200000)
    r = post("/cgi/cat", body, "Content-Type: x/y")
    equal(r.body, b"200000 x/y\n" + body)


def a_chunked_body_has_a_length_for_the_program():
    c = server.client()
    c.send("POST /cgi/cat HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
           "5;ext=1\r\nhello\r\n")
    time.sleep(0.05)
    c.send("00006\r\n world\r\n0\r\nTrailer: x\r\n\r\n")
    equal(c.response().body, b"11 \nhello world")
    equal(c.get("/file").body, b"file")


def expect_100_is_answered_before_the_body():
    c = server.client()
    c.send("POST /cgi/cat HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    equal(c.line(), "HTTP/1.1 100 Continue")
    equal(c.line(), "")
    c.send("ok")
    equal(c.response().body, b"2 \nok")


def a_body_that_is_too_large_or_malformed_is_refused():
    c = server.client()
    c.send("POST /cgi/cat HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n")
    equal(c.response().status, 413)
    assert c.closed()
    chunked = "POST /cgi/cat HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    for body, status in (("g\r\n", 400), ("5\r\nhelloX\r\n", 400), ("-1\r\n", 400),
                         ("fffffffffffffffff\r\n", 400), ("5\nhello\r\n", 400),
                         ("40001\r\n" + "x" * 0x40001, 413)):
        c = server.client()
        try:
            c.send(chunked + body)
        except ConnectionError:
            pass
        equal(c.response().status, status, body[:20])


def the_programs_header_is_honoured():
    r = server.get("/cgi/status")
    equal((r.status, r["x-a"], r.body), (418, "b", b"tea\n"))
    r = server.get("/cgi/length")
    equal((r["content-length"], r["transfer-encoding"], r.body), ("5", None, b"hello"))
    r = server.get("/cgi/jump")
    equal((r.status, r["location"]), (302, "http://else/"))
    equal(server.get("/cgi/none").status, 204)
    c = server.client()
    equal(c.get("/cgi/length", method="HEAD").body, b"")
    equal(c.get("/file").body, b"file")


def an_http_1_0_client_gets_no_chunks():
    r = server.get("/cgi/env", version="1.0")
    equal((r["transfer-encoding"], r["connection"]), (None, "close"))
    equal(variables(r)["SERVER_PROTOCOL"], "HTTP/1.0")


def failures_are_502_404_403_504():
    equal(server.get("/cgi/silent").status, 502)
    equal(server.get("/cgi/garbage").status, 502)
    equal(server.get("/cgi/absent").status, 404)
    equal(server.get("/cgi/plain").status, 403)
    equal(server.get("/cgi/").status, 404)
    equal(server.get("/cgi/..%2fx").status, 400)
    with impatient() as s:
        s.start()
        start = time.monotonic()
        equal(s.get("/cgi/hang").status, 504)
        assert time.monotonic() - start > 1


def a_short_answer_breaks_the_connection():
    c = server.client()
    try:
        c.get("/cgi/short")
        raise AssertionError("the truncated answer looked complete")
    except (EOFError, ConnectionError):
        pass


def an_answer_that_only_the_end_delimits_is_whole_or_reset():
    """A program that stops in the midst of an answer to HTTP/1.0, and a worker that ends then."""
    with impatient(6) as s:
        c = s.start().client().send("GET /cgi/stuck HTTP/1.0\r\n\r\n")
        try:
            raise AssertionError("the truncated answer looked complete: %r" % c.rest())
        except ConnectionResetError:
            pass
    with Server(config="cgi /cgi/ %s/cgi/\n" % server.dir) as s:
        c = s.start().client().send("GET /cgi/stuck HTTP/1.0\r\n\r\n")
        wait_for(lambda: c.more() and c.buf.endswith(b"a part"))
        equal(s.stop(), 0)
        try:
            raise AssertionError("the truncated answer looked complete: %r" % c.rest())
        except ConnectionResetError:
            pass


def a_slow_program_does_not_delay_files():
    """It goes on until they are there: on a slow machine, too, nobody can have waited for it."""
    with Server("--architecture", ARCHITECTURE, "--processes", "4", "--threads", "4",
                *os.environ.get("FLASH_ARGS", "").split(), config="cgi /cgi/ %s/cgi\n" % server.dir) as s:
        s.write("file", "file")
        s.start()
        slow = s.client().send("GET /cgi/hang HTTP/1.1\r\nHost: t\r\n\r\n")
        for _ in range(20):
            equal(s.get("/file").body, b"file")
        equal(select.select([slow.sock], [], [], 0)[0], [])
        slow.close()


def a_large_answer_waits_for_a_slow_client():
    for path in ("/cgi/big", "/app/?big=3000000"):
        c = Client(server.port)
        c.sock.setsockopt(1, 8, 65536)
        c.send("GET %s HTTP/1.1\r\nHost: t\r\n\r\n" % path)
        time.sleep(0.3)
        equal(len(c.response().body), 3000000, path)
        equal(c.get("/file").body, b"file")


def one_fastcgi_process_answers_many_requests():
    pids = {variables(server.get("/app/x"))["pid"] for _ in range(10)}
    if ARCHITECTURE in ("amped", "sped"):
        equal(len(pids), 1, "processes")
    env = variables(server.get("/app/some/path?q", "X-Long: " + "v" * 300))
    equal((env["SCRIPT_NAME"], env["PATH_INFO"], env["QUERY_STRING"]), ("/app", "/some/path", "q"))
    equal(env["HTTP_X_LONG"], "v" * 300)
    env = variables(server.get("/dir/a.fpage"))
    equal((env["SCRIPT_NAME"], env["SCRIPT_FILENAME"]),
          ("/dir/a.fpage", server.root + "/dir/a.fpage"))


def fastcgi_bodies_arrive_whole():
    for size in (0, 1, 100, 32768, 200000):
        body = b"0123456789" * (size // 10) + b"x" * (size % 10)
        r = post("/app/", body)
        assert b"body=%d:" % size + body[:100] in r.body, (size, r)


def a_fastcgi_program_may_listen_on_a_port():
    listener = socket.create_server(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % listener.getsockname()[1]
    # One of each: the program serves one connection at a time.
    other = Server("--architecture", ARCHITECTURE, "--processes", "1", "--threads", "1",
                   config="fastcgi /app/ %s\n" % address)
    program = subprocess.Popen([sys.executable, os.path.join(HERE, "..", "lib", "fcgi_app.py")],
                               stdin=listener)
    listener.close()
    try:
        other.start()
        for _ in range(3):
            equal(variables(other.get("/app/x"))["PATH_INFO"], "/x")
        program.kill()
        program.wait()
        equal(other.get("/app/x").status, 502)
    finally:
        program.kill()
        program.wait()
        other.stop()
        other.remove()


def a_dead_fastcgi_process_is_502_and_replaced():
    old = variables(server.get("/app/"))["pid"]
    equal(server.get("/app/?die").status, 502)

    def answered():
        r = server.get("/app/")
        return r.status == 200 and r
    r = wait_for(answered)
    assert variables(r)["pid"] != old or ARCHITECTURE in ("mp", "mt")
    equal(server.get("/dead/").status, 502)


def a_hanging_fastcgi_process_is_504():
    with impatient() as s:
        equal(s.start().get("/app/?hang").status, 504)


def a_process_of_mp_sleeps_while_its_program_works():
    mp = Server("--architecture", "mp", "--processes", "1", "--app-timeout", "2s",
                config="fastcgi /app/ exec:%s/fcgi 1\ncgi /cgi/ %s/cgi\n" % (server.dir, server.dir))
    try:
        mp.start()
        for path in ("/app/?hang", "/cgi/hang"):
            equal(mp.get(path).status, 504, path)
        used = sum(map(cpu_seconds, children(mp.proc.pid)))
        assert used < 1, used
    finally:
        mp.stop()
        mp.remove()


def accepted(listener):
    """The next request to a program: its connection, with all of it read."""
    c = listener.accept()[0]
    c.settimeout(20)
    got = b""
    while not got.endswith(b"\1\5\0\1\0\0\0\0"):
        piece = c.recv(65536)
        assert piece, got
        got += piece
    return c


def a_program_that_ends_with_its_answer_keeps_nobody_waiting():
    """Its answer and its end are one event: the connection is not kept for the next request."""
    answer = b"\1\6\0\1\0\x0a\0\0A: b\n\nwell" b"\1\3\0\1\0\x08\0\0" + bytes(8)
    for args, family in (("epoll", socket.AF_UNIX), ("io_uring", socket.AF_UNIX), ("epoll", socket.AF_INET)):
        listener = socket.socket(family)
        listener.settimeout(20)
        if family == socket.AF_INET:
            listener.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % listener.getsockname()[1] if family == socket.AF_INET else "unix:@DIR@/program"
        with listener, Server("--workers", "1", "--events", args, "--fastcgi-keep", "4", "--app-timeout", "600s",
                              config="fastcgi /app/ %s\n" % address) as s:
            if family == socket.AF_UNIX:
                listener.bind(os.path.join(s.dir, "program"))
                os.chmod(os.path.join(s.dir, "program"), 0o777)
            listener.listen(8)
            s.start()
            worker, = wait_for(lambda: children(s.proc.pid))
            for turn in range(3):
                client = s.client(timeout=20).send("GET /app/x HTTP/1.1\r\nHost: t\r\n\r\n")
                with accepted(listener) as program:
                    os.kill(worker, signal.SIGSTOP)
                    program.sendall(answer)
                os.kill(worker, signal.SIGCONT)
                equal(client.response().body, b"well", (args, family, turn))
                client.close()


def what_a_program_says_while_nobody_looks_is_nobodys():
    """A whole answer that is there when the next request is, on a connection that is kept."""
    def answer(text):
        return b"\1\6\0\1\0" + bytes([6 + len(text)]) + b"\0\0A: b\n\n" + text + b"\1\3\0\1\0\x08\0\0" + bytes(8)

    listener = socket.socket()
    listener.settimeout(20)
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    with listener, Server("--workers", "1", "--events", "epoll", "--fastcgi-keep", "4", "--app-timeout", "20s",
                          config="fastcgi /app/ 127.0.0.1:%d\n" % listener.getsockname()[1]) as s:
        s.start()
        worker, = wait_for(lambda: children(s.proc.pid))
        for turn in range(5):
            client = s.client(timeout=20).send("GET /app/x HTTP/1.1\r\nHost: t\r\n\r\n")
            with accepted(listener) as program:
                program.sendall(answer(b"first"))
                equal(client.response().body, b"first", turn)
                os.kill(worker, signal.SIGSTOP)
                client.send("GET /app/mine HTTP/1.1\r\nHost: t\r\n\r\n")
                time.sleep(0.02)                # so that flash hears of the client first
                program.sendall(answer(b"poison"))
                os.kill(worker, signal.SIGCONT)
                with accepted(listener) as program_again:
                    program_again.sendall(answer(b"mine"))
                    equal(client.response().body, b"mine", turn)
            client.close()


def a_worker_may_end_while_its_processes_are_started():
    """What it does with memory that it has freed only a sanitizer, or an unlucky day, tells."""
    for turn in range(8):
        with Server("--workers", "1", config="fastcgi /app/ exec:@DIR@/many 64\n") as s:
            path = os.path.join(s.dir, "many")
            with open(path, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexec sleep 60\n")
            os.chmod(path, stat.S_IRWXU)
            s.start()
            s.client().send("GET /app/x HTTP/1.1\r\nHost: t\r\n\r\n")
            time.sleep(turn / 250)
            equal(s.stop(), 0)
            assert "ended" not in s.stderr(), s.stderr()


def it_ends_cleanly():
    equal(server.stop(), 0)
    equal(server.stderr(), "")


if __name__ == "__main__":
    try:
        prepare()
        main([v for k, v in list(globals().items())
              if callable(v) and getattr(v, "__module__", "") == "__main__"
              and k not in ("prepare", "impatient", "variables", "post", "accepted")])
    finally:
        server.remove()
