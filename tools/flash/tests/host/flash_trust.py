#!/usr/bin/env python3
# timeout: 240
"""What flash must not give away, and what must not stop it: programs' text, bounds, parsers."""
import itertools
import json
import os
import socket
import stat
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import Server, equal, main  # noqa: E402

SECRET = "<?php $password = 'sesame';"
PROGRAM = "#!/bin/sh\nexec %s %s\n" % (sys.executable, os.path.join(HERE, "..", "lib", "fcgi_app.py"))


def executable(s, name, text):
    """A program beside the document root."""
    path = os.path.join(s.dir, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    return path


def cgi_server(scripts, *args):
    """flash with CGI programs that answer with these bytes."""
    s = Server(*args, config="cgi /cgi/ @DIR@/cgi\n")
    s.write("file", "file")
    for name, answer in scripts.items():
        with open(os.path.join(s.dir, name + ".out"), "wb") as f:
            f.write(answer)
        executable(s, "cgi/" + name, "#!/bin/sh\ncat %s/%s.out\n" % (s.dir, name))
    return s


def a_programs_text_is_never_sent():
    for args in ("amped", "sped", "amped --helper-kind processes", "amped --path-cache off",
                 "mt --threads 2", "mp --processes 2"):
        with Server("--architecture", *args.split(), "--listing", "on", "--precompressed", "on",
                    config="index index.html index.php\nfastcgi *.php exec:@DIR@/fcgi 1\n"
                           "vhost other { \n root @ROOT@\n}\n") as s:
            executable(s, "fcgi", PROGRAM)
            s.write("index.php", SECRET)
            s.write("sub/index.php", SECRET)
            s.write("UPPER.PHP", SECRET)
            s.write("dots.php.", SECRET)
            s.write("blank.php ", SECRET)
            s.write("index.php.gz", SECRET)
            s.write("page/index.html", "page")
            s.write("page/index.php", SECRET)
            os.symlink("index.php", os.path.join(s.root, "link.txt"))
            os.symlink("sub", os.path.join(s.root, "way"))
            s.start()
            c = s.client()
            r = c.get("/")
            equal(r.status, 200, args)
            assert b"SCRIPT_NAME=/index.php\n" in r.body, (args, r.body)
            assert b"REQUEST_URI=/\n" in r.body, (args, r.body)
            r = c.get("/sub/?q=1")
            assert b"SCRIPT_NAME=/sub/index.php\n" in r.body, (args, r.body)
            equal(c.get("/sub").status, 301, args)
            equal(c.get("/page/").body, b"page", args)
            for path in ("/", "/sub/", "//", "/./", "/x/../", "/sub/.", "/index.php", "/index.php/",
                         "/index.php/x", "/index.ph%70", "/index%2ephp", "/INDEX.PHP", "/UPPER.PHP",
                         "/dots.php.", "/blank.php%20", "/link.txt", "/way/", "/way/index.php",
                         "/index.php%00", "/sub%2findex.php", "/index.php%20", "/index.php."):
                for header in ("A: b", "If-None-Match: \"x\"", "Range: bytes=0-5", "Accept-Encoding: gzip",
                               "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"):
                    for host in ("test", "other"):
                        r = s.raw("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\nConnection: close\r\n\r\n" % (
                            path, host, header))
                        assert b"<?" not in r.body and b"sesame" not in r.body, (args, path, host, r)
                        assert r.status != 206, (args, path, r)
            r = c.get("/", method="HEAD")
            equal((r.status, r["last-modified"], r["accept-ranges"]), (200, None, None), args)
            c.close()


def a_program_that_has_no_suffix_is_never_sent_either():
    """Neither by another host, nor by a link, nor as what another file is when it is packed."""
    for args in ("amped", "amped --helper-kind processes", "mt --threads 2"):
        with Server("--architecture", *args.split(), "--precompressed", "on",
                    config="cgi /cgi/ @ROOT@/cgi\ncgi /run/ @ROOT@/both\nfastcgi /app/ exec:@ROOT@/app 1\n"
                           "vhost other { \n root @ROOT@\n}\nvhost both { \n root @ROOT@/both\n}\n") as s:
            for name in ("cgi/x", "both/x"):
                os.chmod(s.write(name, "#!/bin/sh\n# sesame\nprintf 'A: b\\n\\nran'\n"), 0o755)
            os.chmod(s.write("app", PROGRAM + "# sesame\n"), 0o755)
            s.write("cgi/settings", SECRET)
            s.write("both/page.html", "page")
            s.write("page.html", "page")
            os.symlink("cgi", os.path.join(s.root, "way"))
            os.symlink("cgi/x", os.path.join(s.root, "link.txt"))
            os.symlink("cgi/settings", os.path.join(s.root, "page.html.gz"))
            s.start()
            for path, host, status in (("/cgi/x", "test", 200), ("/cgi/x", "other", 403), ("/way/x", "test", 403),
                                       ("/way/settings", "test", 403), ("/cgi/settings", "other", 403),
                                       ("/link.txt", "test", 403), ("/run/x", "test", 200), ("/both/x", "other", 403),
                                       ("/x", "both", 403), ("/page.html", "both", 200), ("/page.html", "test", 200),
                                       ("/app", "test", 403)):
                r = s.raw("GET %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n" % (
                    path, host))
                equal((r.status, b"sesame" in r.body), (status, False), (args, path, host))


def only_flash_reaches_a_program_that_it_has_started():
    """Whoever else could would be believed whatever a server says: who the user is, which script to run."""
    for args in ("amped", "sped", "mt --threads 2"):
        with Server("--architecture", *args.split(), config="fastcgi /app/ exec:@DIR@/fcgi 2\n") as s:
            executable(s, "fcgi", PROGRAM)
            s.start()
            body = s.get("/app/").body
            assert body.startswith(b"pid="), body
            inode = os.readlink("/proc/%d/fd/0" % int(body[4:].split(b"\n")[0]))[8:-1]
            with open("/proc/net/unix", encoding="ascii", errors="replace") as f:
                line = next(line for line in map(str.split, f) if line[6] == inode)
            assert line[7][0] != "@" and not os.path.lexists(os.path.dirname(line[7])), (args, line)


def what_a_program_may_have_done_is_not_asked_for_again():
    """Over a kept connection, whose end may have come before the request or after it."""
    with Server("--workers", "1", config="fastcgi /app/ exec:@DIR@/fcgi 1\n") as s:
        executable(s, "fcgi", PROGRAM)
        s.start()
        done = os.path.join(s.dir, "done")
        for request in ("POST /app/?die=%s HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\npay",
                        "DELETE /app/?die=%s HTTP/1.1\r\nHost: t\r\n\r\n"):
            equal(s.get("/app/").status, 200)
            equal(s.raw(request % done).status, 502)
        with open(done, encoding="ascii") as f:
            equal(f.read(), "POST pay\nDELETE \n")


def a_program_is_not_an_error_page_and_an_index_does_not_climb():
    for line in ("fastcgi *.php 127.0.0.1:9\nerror_page 404 @DIR@/missing.php\n",
                 "cgi /cgi/ @DIR@\nerror_page 404 @DIR@/missing.php\n",
                 "fastcgi *.php 127.0.0.1:9\nerror_page 404 @DIR@/link.html\n",
                 "index ../secret\n", "index /etc/passwd\n", "index a/../../b\n"):
        with Server("--check", config=line) as s:
            with open(os.path.join(s.dir, "missing.php"), "w", encoding="ascii") as f:
                f.write(SECRET)
            os.chmod(f.name, 0o755)
            os.symlink("missing.php", os.path.join(s.dir, "link.html"))
            try:
                s.start()
            except AssertionError as e:
                assert "ended with 1" in str(e), (line, e)
            else:
                raise AssertionError("accepted: " + line)


def a_program_gets_no_file_in_place_of_its_own():
    """Some go up the path until they find a file, and open what a link leads to."""
    for args in ("amped", "sped", "amped --helper-kind processes", "mt --threads 2"):
        with Server("--architecture", *args.split(), config="fastcgi *.php exec:@DIR@/fcgi 1\n") as s:
            executable(s, "fcgi", PROGRAM)
            executable(s, "outside.php", SECRET)
            s.write("up/picture.jpg", SECRET)
            s.write("real.php", SECRET)
            os.symlink("real.php", os.path.join(s.root, "inside.php"))
            os.symlink("../outside.php", os.path.join(s.root, "link.php"))
            os.symlink("../../outside.php", os.path.join(s.root, "up", "link"))
            os.mkdir(os.path.join(s.root, "dir.php"))
            s.start()
            for path, status in (("/real.php", 200), ("/inside.php", 200), ("/gone.php", 200), ("/no/such.php", 200),
                                 ("/dir.php", 200), ("/up/picture.jpg/x.php", 404), ("/up/picture.jpg//x.php", 404),
                                 ("/up/picture.jpg/%2e/x.php", 404), ("/up/picture.jpg/y/x.php", 404),
                                 ("/real.php/x.php", 404), ("/link.php", 403), ("/up/link/x.php", 403)):
                for _ in range(2):
                    r = s.get(path)
                    equal((r.status, b"SCRIPT_NAME=" in r.body), (status, status == 200), (args, path))


def if_range_works_on_each_day_of_the_week():
    with Server() as s:
        for day in range(7):
            s.write("f%d" % day, b"0123456789" * 20, mtime=1704067200 + 86400 * day)
        s.start()
        c = s.client()
        for day in range(7):
            modified = c.get("/f%d" % day)["last-modified"]
            r = c.get("/f%d" % day, "Range: bytes=3-5", "If-Range: " + modified)
            equal((r.status, r.body), (206, b"345"), modified)
            r = c.get("/f%d" % day, "Range: bytes=3-5", "If-Range: Wed, 01 Jan 2020 00:00:00 GMT")
            equal(r.status, 200, modified)


def overlapping_ranges_do_not_multiply_a_file():
    with Server() as s:
        s.write("big", b"x" * 1000000)
        s.start()
        r = s.get("/big", "Range: bytes=" + ",".join("%d-" % i for i in range(15, -1, -1)))
        assert len(r.body) <= 1010000, len(r.body)
        equal(s.get("/big", "Range: bytes=0-9,20-29").status, 206)


def a_programs_reason_is_bounded_and_nothing_else_is_sent():
    plain = b"\nX: y\n\nbody"
    scripts = {
        "long": b"Status: 200 " + b"A" * 4000 + plain,
        "seventy": b"Status: 200 " + b"B" * 70 + plain,
        "none": b"Status: 404" + plain,
        "blanks": b"Status:    404    Gone for good" + plain,
    }
    with cgi_server(scripts) as s:
        s.start()
        for _ in range(3):
            for name, want in (("long", b"HTTP/1.1 200 " + b"A" * 128), ("seventy", b"HTTP/1.1 200 " + b"B" * 70),
                               ("none", b"HTTP/1.1 404 Not Found"), ("blanks", b"HTTP/1.1 404 Gone for good")):
                c = s.client()
                c.send("GET /cgi/%s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n" % name)
                head = c.rest().split(b"\r\n\r\n")[0].split(b"\r\n")
                equal(head[0], want, name)
                for line in head[1:]:
                    assert b": " in line and line.isascii() and b"\0" not in line, (name, line)


def a_programs_header_that_two_readers_read_differently_is_502():
    good = b"Content-Type: text/plain\r\n"
    bad = {
        "cr": good + b"X: a\rSet-Cookie: b\r\n\r\n", "blank": good + b"Content-Length : 3\r\n\r\nabc",
        "fold": good + b" folded\r\n\r\n", "nul": good + b"X: a\0b\r\n\r\n",
        "twice": b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "minus": b"Content-Length: -1\r\n\r\nabc", "plus": b"Content-Length: +3\r\n\r\nabc",
        "words": b"Content-Length: 3, 3\r\n\r\nabc", "huge": b"Content-Length: 99999999999999999999\r\n\r\nabc",
        "hex": b"Content-Length: 0x3\r\n\r\nabc", "status": b"Status: 2000 x\r\nX: y\r\n\r\n",
        "statuses": b"Status: 200 x\r\nStatus: 404 y\r\nX: y\r\n\r\n", "early": b"Status: 101 go\r\nX: y\r\n\r\n",
        "name": b"X Y: z\r\n\r\n", "empty": b": z\r\n\r\n", "colon": b"no field\r\n\r\n",
        "tab": b"\vX: z\r\n\r\n", "many": b"A:\n" * 6000,
    }
    with cgi_server(bad) as s:
        s.start()
        for name in bad:
            equal(s.get("/cgi/" + name).status, 502, name)
        equal(s.get("/file").body, b"file")


def nothing_is_read_behind_a_refusal_that_waits_for_its_client():
    """What cannot be understood is the last of its connection, also where its answer finds no room."""
    get = b"GET /none HTTP/1.1\r\nHost: t\r\n\r\n"

    def client():
        c = s.client()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        return c

    asked = itertools.count(1)

    def requests():
        return json.loads(s.get("/status").body)["requests"] - next(asked)

    def settle():
        """Requests until no more of them are taken up, without those that ask for it."""
        calm, now = 0, requests()
        while calm < 3:
            time.sleep(0.05)
            before, now = now, requests()
            calm = calm + 1 if now == before else 0
        return now

    with Server("--send-buffer", "8k", "--workers", "1", config="status /status\n") as s:
        s.write("file", "file")
        s.start()
        # So many answers find room.
        before = settle()
        c = client().send(get * 3000)
        room = settle() - before
        assert 50 < room < 2900, room
        c.close()
        for n in range(room - 10, room + 5):
            c = client().send(get * n)
            settle()
            c.send(b"nonsense\r\n\r\n")
            settle()
            c.send(b"GET /file HTTP/1.1\r\nHost: t\r\n\r\n" * 3)
            settle()
            for _ in range(n):
                equal(c.response().status, 404, n)
            r = c.response()
            equal((r.status, r["connection"]), (400, "close"), n)
            assert c.closed(), n
            c.close()


def a_refusal_that_the_client_does_not_take_waits_for_it():
    chunked = b"POST /cgi/cat HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    for last in (chunked + b"x\r\n", chunked.replace(b"cat", b"none") + b"0\r\n\r\n"):
        with cgi_server({}, "--send-buffer", "8k") as s:
            executable(s, "cgi/cat", "#!/bin/sh\necho 'A: b'\necho\ncat\n")
            s.start()
            # Answers fill the socket until one of them blocks; the refusal is the last.
            for n in range(1, 60, 3):
                c = s.client()
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                c.send(b"GET /none HTTP/1.1\r\nHost: t\r\n\r\n" * n + last + b"z" * 100)
                time.sleep(0.01)
                c.send(b"z" * 100)
                for _ in range(n):
                    equal(c.response().status, 404, n)
                r = c.response()
                equal((r.status, r["connection"]), (400 if last[-3:] == b"x\r\n" else 404, "close"), n)
                c.close()
            equal(s.get("/file").body, b"file")


def what_a_program_complains_of_is_one_line_of_the_log_and_no_other():
    said = b"first\nflash: worker 1 died of signal 9\n\x1b[2J\x9b31m\x00\x7fback\\slash\xe4 'q' \"Q\"\r\n" \
           + b"l" * 1500 + b"\nlast"
    plain = b"\\x1b[2J\\x9b31m\\x00\\x7fback\\x5cslash\\xe4 'q' \"Q\"\\x0d"
    for args in ("amped", "sped", "amped --helper-kind processes", "amped --events io_uring",
                 "mt --threads 2", "mp --processes 2"):
        with Server("--architecture", *args.split(),
                    config="cgi /cgi/ @DIR@/cgi\nfastcgi /app/ exec:@DIR@/fcgi 1\n") as s:
            with open(os.path.join(s.dir, "said"), "wb") as f:
                f.write(said)
            executable(s, "cgi/say", "#!/bin/sh\ncat %s/said >&2\nprintf 'A: b\\n\\nbody'\n" % s.dir)
            executable(s, "fcgi", PROGRAM)
            s.start()
            equal(s.get("/cgi/say").status, 200, args)
            equal(s.get("/app/?say=" + said.hex()).status, 200, args)
            equal(s.stop(), 0, args)    # what has no end yet is a line then
            with open(s.errors.name, "rb") as f:
                lines = f.read().split(b"\n")
            equal(lines.pop(), b"", args)
            for line in lines:
                assert all(32 <= c < 127 for c in line), (args, line)
            for who in ("%s/cgi/say" % s.dir, "exec:%s/fcgi" % s.dir, "%s/fcgi" % s.dir):
                start = b"flash: %s: " % who.encode()
                equal([line[len(start):] for line in lines if line.startswith(start)],
                      [b"first", b"flash: worker 1 died of signal 9", plain, b"l" * 800 + b"...", b"last"],
                      (args, who))
            equal(len(lines), 15, (args, lines))


def what_lies_between_us_and_the_client_is_ours_to_say():
    scripts = {
        "hops": b"Transfer-Encoding: chunked\nConnection: upgrade\nUpgrade: x\nTrailer: y\nTE: z\n"
                b"Keep-Alive: a\nProxy-Connection: b\nX: y\n\nbody",
        "full": b"".join(b"H%d: v\n" % i for i in range(1500)) + b"\nbody",
        "204": b"Status: 204 No\nContent-Length: 5\nX: y\n\nhello",
    }
    with cgi_server(scripts) as s:
        s.start()
        c = s.client()
        r = c.get("/cgi/hops")
        equal(r.body, b"body")
        for name in ("upgrade", "trailer", "te", "keep-alive", "proxy-connection", "connection"):
            equal(r[name], None, name)
        equal(c.get("/cgi/full")["h1499"], "v")
        equal(c.get("/cgi/204")["content-length"], None)
        equal(c.get("/file").body, b"file")


def a_body_that_nobody_reads_ends_the_connection_and_the_answer_says_so():
    with Server(config="status /status\ncgi /cgi/ @DIR@\n") as s:
        s.write("file", "file")
        s.write("big", b"x" * 100000)
        os.mkdir(os.path.join(s.root, "dir"))
        s.start()
        for method in ("POST", "GET", "PUT", "HEAD", "OPTIONS", "BREW", "DELETE"):
            for path in ("/file", "/big", "/none", "/dir", "/dir/", "/status", "/cgi/", "*", "/%00"):
                if (path == "*") != (method == "OPTIONS"):
                    continue
                for framing, body in (("Content-Length: 5", "hello"), ("Content-Length: 500000", "h" * 500000),
                                      ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")):
                    c = s.client()
                    c.send("%s %s HTTP/1.1\r\nHost: t\r\n%s\r\n\r\n" % (method, path, framing))
                    c.send(body)
                    r = c.response(head=method == "HEAD")
                    equal(r["connection"], "close", (method, path, framing, r.status))
                    assert c.closed(), (method, path, framing)
                    c.close()


def what_parsers_differ_about_ends_the_connection():
    get = b"GET /file HTTP/1.1\r\nHost: t\r\n"
    post = b"POST /cgi/cat HTTP/1.1\r\nHost: t\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    follow = b"GET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n"
    bad = [
        post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        post + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        post + b"Content-Length: 5, 5\r\n\r\nhello", post + b"Content-Length: +5\r\n\r\nhello",
        post + b"Content-Length: 0x5\r\n\r\nhello", post + b"Content-Length:\r\n\r\n",
        post + b"Content-Length : 5\r\n\r\nhello", post + b"Content-Length: 5\v\r\n\r\nhello",
        post + b"Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        chunked + b"1;a\nb\r\nx\r\n0\r\n\r\n", chunked + b"1\nx\r\n0\r\n\r\n",
        chunked + b"1;\rX\r\nx\r\n0\r\n\r\n", chunked + b"1 2\r\nx\r\n0\r\n\r\n",
        chunked + b"0\r\n\rX\r\n\r\n", chunked + b"1\r\nxy\r\n0\r\n\r\n",
        get + b"A: b\r\n c\r\n\r\n", get + b" folded: b\r\n\r\n", get + b"A: b\rC: d\r\n\r\n",
        get + b"\rX\r\n\r\n", get + b"A: b\0c\r\n\r\n", get + b"A\0: b\r\n\r\n", get + b"A b: c\r\n\r\n",
        get + b"Host: other\r\n\r\n", get + b"host: t\r\n\r\n", b"GET /file HTTP/1.1\r\n\r\n",
        b"GET /file HTTP/1.1\r\nHost: a b\r\n\r\n", b"GET /file HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET http://t/file HTTP/1.1\r\nHost: a b\r\n\r\n", b"\r" + get + b"\r\n",
        b"GET /file\r HTTP/1.1\r\nHost: t\r\n\r\n", b"GET\t/file HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET  /file HTTP/1.1\r\nHost: t\r\n\r\n", b"GET /file HTTP/1.1 \r\nHost: t\r\n\r\n",
        b"GET /file HTTP/2.0\r\nHost: t\r\n\r\n", b"GET /fi\0le HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET /file\r\n\r\n",
    ]
    with cgi_server({}) as s:
        executable(s, "cgi/cat", "#!/bin/sh\necho 'A: b'\necho\ncat\n")
        s.start()
        for text in bad:
            c = s.client()
            c.send(text + follow)
            r = c.response()
            assert 400 <= r.status <= 505, (text, r)
            equal(r["connection"], "close", text)
            assert c.closed(), text
            c.close()
        # A line may end with LF alone, but others may think that it does not.
        for text in (get.replace(b"\r\n", b"\n") + b"\n", get + b"A: b\n\r\n", get + b"\n",
                     get.replace(b"1.1\r", b"1.1") + b"\r\n", post + b"Content-Length: 2\nA: b\r\n\r\nhi"):
            c = s.client().send(text + follow)
            r = c.response()
            equal((r.status, r["connection"]), (200, "close"), text)
            assert c.closed(), text
            c.close()
        c = s.client().send(get + b"A: b\tc\xe4\r\n\r\n")
        equal(c.response().body, b"file")
        equal(c.send(chunked + b"1;a=\"b\tc\"\r\nx\r\n0\r\nA: b\r\n\r\n").response().body, b"x")
        equal(c.get("/file").body, b"file")


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("executable", "cgi_server")])
