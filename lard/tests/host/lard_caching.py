#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""lardd's cache by policy: classes, variants, one fetch for many."""

import itertools
import os
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, answer_with, behind, cluster, content, kit, main, read_answer, until  # noqa: E402
from pages import Crowd, Page, text  # noqa: E402

CACHE = "cache-size 4000000\ncache-object-max 1000000\n"
FRESH = "Cache-Control: max-age=600"
ETAG = 'ETag: "one"'


def each_setting_of_the_classes_keeps_its_own():
    pages = {"/a.css": ("static", (ETAG, "Content-Type: text/css")), "/a.png": ("image", ("Content-Type: image/png",)),
             "/a.php": ("dynamic", ("Content-Type: text/html",)), "/a.png?x": ("dynamic", (ETAG,)),
             "/app/a.css": ("dynamic", (ETAG,))}

    def script(_peer, head, _body):
        return text("x", *pages[head.split(b" ")[1].decode()][1]), True
    for setting in itertools.product((False, True), repeat=3):
        on = dict(zip(("static", "image", "dynamic"), setting))
        lines = "".join(f"cache-class {name} {'on 1h' if value else 'off'}\n" for name, value in on.items())
        with behind(script, CACHE + lines + "cache-dynamic /app/\n") as (lardd, origin):
            for path, (name, _) in pages.items():
                before = len(origin.requests)
                lardd.get(path)
                lardd.get(path)
                assert len(origin.requests) - before == (1 if on[name] else 2), (on, path)


def a_lifetime_of_a_class_ends():
    with behind(Page(ETAG), CACHE + "cache-class static on 2s") as (lardd, origin):
        begin = time.monotonic()
        lardd.get("/x")
        lardd.get("/x")
        assert len(origin.requests) == 1 or time.monotonic() - begin > 2
        until(lambda: lardd.get("/x") and len(origin.requests) > 1, what="a second fetch")
        assert time.monotonic() - begin > 2


def who_can_decode_the_same_shares_an_answer():
    def script(_peer, head, _body):
        coding = "gzip" if b"gzip" in head else "br" if b"br" in head else "identity"
        return text(coding, FRESH, "Vary: Accept-Encoding", f"Content-Encoding: {coding}"), True
    with behind(script, CACHE) as (lardd, origin):
        for fields, body in (("Accept-Encoding: gzip\r\n", b"gzip"), ("Accept-Encoding: br\r\n", b"br"),
                             ("", b"identity"), ("Accept-Encoding: gzip;q=0\r\n", b"identity"),
                             ("Accept-Encoding: deflate, GZIP\r\n", b"identity")) * 2:
            got = lardd.get("/x", fields)[2]
            assert got == body, (fields, got)
        assert len(origin.requests) == 4, origin.requests
        # Another coding than was asked for is not kept, and what says more than we know is not served from it.
        before = len(origin.requests)
        for _ in range(2):
            lardd.get("/x", "Accept-Encoding: *\r\n")
        assert len(origin.requests) == before + 2
        # All of them go with the page.
        assert lardd.ask(b"DELETE /x HTTP/1.0\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200")
        before = len(origin.requests)
        for fields in ("", "Accept-Encoding: gzip\r\n", "Accept-Encoding: br\r\n"):
            lardd.get("/x", fields)
        assert len(origin.requests) == before + 3


def a_proxy_before_us_says_how_its_client_came():
    """What is made for one that came by TLS goes to nobody else, nor what was made of an odd word."""
    def script(_peer, head, _body):
        said = [line[17:].strip().decode().lower() for line in head.split(b"\r\n")
                if line.startswith(b"X-Forwarded-Proto")]
        return text(f"to {'+'.join(said)}", FRESH), True
    forwarded = "X-Forwarded-Proto: "
    cases = (("", b"to "), (forwarded + "https\r\n", b"to :https"), (forwarded + "HTTP\r\n", b"to :http"))
    with behind(script, CACHE) as (lardd, origin):
        for _ in range(2):
            for fields, body in cases:
                got = bytes(lardd.get("/x", fields)[2])
                assert got.replace(b": ", b":") == body.replace(b": ", b":"), (fields, got)
        assert len(origin.requests) == 3
        for odd in ("X_Forwarded_Proto: https\r\n", forwarded + "https, http\r\n", (forwarded + "https\r\n") * 2,
                    forwarded + "http\r\n" + forwarded + "https\r\n"):
            before = len(origin.requests)
            lardd.get("/x", odd)
            assert len(origin.requests) > before, odd
        for fields, body in cases:
            assert bytes(lardd.get("/x", fields)[2]).replace(b": ", b":") == body
        # A change is one for all of them, whoever says it.
        change = b"DELETE /x HTTP/1.0\r\nHost: h\r\n" + cases[1][0].encode() + b"\r\n"
        assert lardd.ask(change).startswith(b"HTTP/1.1 200")
        before = len(origin.requests)
        for fields, _ in cases:
            lardd.get("/x", fields)
        assert len(origin.requests) == before + 3


def surrogate_control_is_for_us_alone():
    with behind(Page("Surrogate-Control: max-age=60", "Cache-Control: no-store"), CACHE) as (lardd, origin):
        for _ in range(2):
            _, fields, body = lardd.get("/x")
            assert body == b"one" and "surrogate-control" not in fields, fields
            assert fields["cache-control"] == "no-store"
        assert len(origin.requests) == 1


def many_misses_are_one_fetch(workers=1):
    page = Page(FRESH)
    page.go.clear()
    with behind(page, CACHE + f"cache-wait 60s\nworkers {workers}\n") as (lardd, _):
        crowd = Crowd(lardd, 20)
        until(lambda: lardd.counter("LardCacheWaited") == 19, what="19 wait")
        assert lardd.control("status")["connections"]["waiting-for-cache"] == 19
        assert lardd.load() == 1
        page.go.set()
        assert crowd.join() == [(200, "one")] * 20
        assert page.asked == 1 and lardd.counter("LardCacheHits") == 19
        until(lambda: lardd.load() == 0, what="no load")


def so_it_is_with_several_workers():
    many_misses_are_one_fetch(4)


def who_waits_does_not_wait_for_ever():
    page = Page(FRESH)
    page.go.clear()
    with behind(page, CACHE + "cache-wait 1s") as (lardd, _):
        crowd = Crowd(lardd, 5)
        until(lambda: page.asked == 5, what="all ask in the end")
        page.go.set()
        assert crowd.join() == [(200, "one")] * 5


def what_is_not_kept_is_waited_for_once():
    page = Page("Cache-Control: no-store")
    page.go.clear()
    with behind(page, CACHE + "cache-wait 60s") as (lardd, _):
        crowd = Crowd(lardd, 8)
        until(lambda: lardd.counter("LardCacheWaited") == 7, what="7 wait")
        page.go.set()
        assert crowd.join() == [(200, "one")] * 8
        assert page.asked == 8
        # It is known now.
        page.go.clear()
        crowd = Crowd(lardd, 8)
        until(lambda: page.asked == 16, what="all ask at once")
        page.go.set()
        crowd.join()
        assert lardd.counter("LardCacheWaited") == 7


def why_an_answer_is_not_kept_is_explained():
    pages = {"/kept": (FRESH,), "/cookie": (FRESH, "Set-Cookie: a=b"), "/vary": (FRESH, "Vary: User-Agent"),
             "/private": ("Cache-Control: private",), "/short": ()}

    def script(_peer, head, _body):
        return text("x", *pages.get(head.split(b" ")[1].decode(), (FRESH, "Set-Cookie: a=b"))), True
    with behind(script, CACHE) as (lardd, _):
        def told(path, host="h"):
            return lardd.control("explain", url=f"http://{host}:{lardd.port}{path}")["cache"]
        nothing = {"there": False, "fresh": False, "kernel": False}
        assert told("/kept") == nothing, told("/kept")
        for path in pages:
            lardd.ask(f"GET {path} HTTP/1.1\r\nHost: h:{lardd.port}\r\nConnection: close\r\n\r\n".encode())
        kept = told("/kept")
        assert kept["there"] and kept["fresh"] and "not_kept" not in kept and kept["fresh_ms"] == 600000, kept
        for path, why in (("/cookie", "set-cookie"), ("/vary", "vary"), ("/private", "cache-control"),
                          ("/short", "short")):
            assert told(path)["not_kept"] == why and not told(path)["there"], (path, told(path))
        assert told("/cookie")["because"] == "it has Set-Cookie", told("/cookie")
        assert told("/cookie", "other") == nothing
        for port in ("0", "-1", "65536", "80x", "123456", str(2 ** 32 + 80)):
            said = lardd.control("explain", url=f"http://h:{port}/kept")
            assert "port" in said.get("error", ""), (port, said)
        assert lardd.control("explain", url="http://h:/kept")["cache"] == nothing
        # Kept from now on, it is so no more.
        pages["/cookie"] = (FRESH,)
        lardd.ask(f"GET /cookie HTTP/1.1\r\nHost: h:{lardd.port}\r\nConnection: close\r\n\r\n".encode())
        assert told("/cookie")["there"] and "not_kept" not in told("/cookie"), told("/cookie")
    with behind(script) as (lardd, _):
        assert lardd.control("explain", url="http://h/x")["cache"] is None


def what_one_client_asks_oddly_others_wait_for_all_the_same():
    """He is to blame for what is not kept, not the page."""
    def script(_peer, head, _body):
        if b"If-" in head:
            return text("", status="304 Not Modified").replace(b"Content-Length: 0\r\n", b""), True
        if b"X-Bad" in head:
            return text("bad", status="400 Bad"), True
        slow.wait(60)
        return text("page", FRESH, ETAG, "Vary: Accept-Encoding"), True
    slow = threading.Event()
    for field in ('If-None-Match: "one"', "If-Modified-Since: x", "X-Bad: 1", "Accept-Encoding: *"):
        slow.set()
        with behind(script, CACHE + "cache-wait 60s") as (lardd, origin):
            lardd.get("/x", field + "\r\n")
            lardd.control("clear")
            time.sleep(1.1)
            slow.clear()
            before = len(origin.requests)
            crowd = Crowd(lardd, 5)
            until(lambda log=lardd: log.counter("LardCacheWaited") == 4, what="4 wait")
            slow.set()
            assert crowd.join() == [(200, "page")] * 5, field
            assert len(origin.requests) == before + 1, field
    # Who has an older one gets it all, and so does the cache.
    with behind(script, CACHE) as (lardd, origin):
        for _ in range(2):
            lardd.get("/x", 'If-None-Match: "other"\r\n')
        assert len(origin.requests) == 1 and lardd.get("/x", f"If-None-Match: {ETAG[6:]}\r\n")[0] == 304


def who_asks_and_leaves_leaves_nobody_behind():
    page = Page(FRESH)
    page.go.clear()
    with behind(page, CACHE + "cache-wait 60s") as (lardd, _):
        first = lardd.connect()
        first.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: page.asked == 1, what="it asks")
        crowd = Crowd(lardd, 5)
        until(lambda: lardd.counter("LardCacheWaited") == 5, what="5 wait")
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")      # a reset
        first.close()
        page.go.set()
        assert crowd.join() == [(200, "one")] * 5
        assert page.asked <= 2


def clients_that_wait_and_leave_are_forgotten():
    page = Page(FRESH)
    page.go.clear()
    with behind(page, CACHE + "cache-wait 60s") as (lardd, _):
        clients = [lardd.connect() for _ in range(5)]
        for client in clients:
            client.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.counter("LardCacheWaited") == 4, what="4 wait")
        for client in clients:
            client.close()
        page.go.set()
        until(lambda: sum(lardd.control("status")["connections"].values()) == 0, what="all gone")


def who_takes_it_slowly_holds_nobody_up():
    """The first to ask reads a byte of what is more than sockets hold, and no more."""
    large = "x" * 15_000_000
    chunked = f"HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n{len(large):x}\r\n{large}\r\n0\r\n\r\n"
    for answer in (text(large, FRESH), chunked.encode()):
        hold(answer, large)


def hold(answer, large):
    with behind(lambda *_: (answer, True),
                "cache-size 64000000\ncache-object-max 16000000\ncache-wait 30s\nclient-rate 0\n") as (lardd, origin):
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.connect(("127.0.0.1", lardd.port))
            slow.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            assert slow.recv(1) == b"H"
            assert Crowd(lardd, 4).join() == [(200, large)] * 4
            assert len(origin.requests) == 1 and lardd.counter("LardCacheHits") == 4
            # It holds no node either, and gets the same, when it reads on.
            assert lardd.load() == 0
            with slow.makefile("rb") as stream:
                assert bytes(read_answer(stream)[2]).decode() == large


def who_leaves_amid_the_answer_leaves_it_to_the_others():
    half, go = threading.Event(), threading.Event()

    def script(peer, _head, _body):
        answer = text("y" * 100_000, FRESH)
        peer.sendall(answer[:50_000])
        half.set()
        go.wait(60)
        return answer[50_000:], True
    with behind(script, CACHE + "cache-wait 60s") as (lardd, origin):
        first = lardd.connect()
        first.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        assert half.wait(60)
        crowd = Crowd(lardd, 5)
        until(lambda: lardd.counter("LardCacheWaited") == 5, what="5 wait")
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")      # a reset
        first.close()
        time.sleep(0.2)
        go.set()
        assert crowd.join() == [(200, "y" * 100_000)] * 5
        assert len(origin.requests) == 1
        until(lambda: sum(lardd.control("status")["connections"].values()) == 0, what="all gone")


def what_nobody_takes_holds_no_node_for_ever():
    def script(peer, _head, _body):
        peer.sendall(f"HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        while not over.wait(0.3):
            peer.sendall(b"1\r\nx\r\n")
        return b"0\r\n\r\n", False
    over = threading.Event()
    with behind(script, CACHE + "io-timeout 2s") as (lardd, _):
        with lardd.connect() as first:
            first.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            first.recv(100)
            time.sleep(3)
            assert lardd.load() == 1        # who takes it may have it
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")      # a reset
        try:
            until(lambda: lardd.load() == 0, 10, what="the node is free")
        finally:
            over.set()


def what_http_1_0_cannot_tell_from_a_cut_one_is_not_kept():
    def script(_peer, head, _body):
        if b" HTTP/1.0" in head:
            return f"HTTP/1.1 200 OK\r\n{FRESH}\r\n\r\nhal".encode(), False
        return text("half and half", FRESH), True
    with behind(script, CACHE) as (lardd, _):
        lardd.get("/x", version="HTTP/1.0")
        assert bytes(lardd.get("/x")[2]) == b"half and half"


def what_there_is_no_room_for_is_waited_for_once():
    """Its clients do not ask one after another."""
    asked, go = [], threading.Event()

    def script(peer, head, _body):
        if b" /full " in head:
            peer.sendall(text("f" * 95_000, FRESH)[:1000])
            go.wait(60)
            return b"", False
        asked.append(head)
        if len(asked) > 1:              # all others must be here
            until(lambda: len(asked) >= 5, 30, "all ask")
        else:
            until(lambda: lardd.counter("LardCacheWaited") == 4, what="4 wait")
        return text("b" * 95_000, FRESH), True
    with behind(script, "cache-size 200000\ncache-object-max 100000\ncache-wait 60s") as (lardd, _), \
            lardd.connect() as holds:
        holds.sendall(b"GET /full HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.control("status")["cache"]["bytes"] > 90_000, what="it is being filled")
        assert Crowd(lardd, 5).join() == [(200, "b" * 95_000)] * 5
        assert lardd.counter("LardCacheWaited") == 4
        go.set()


def a_change_amid_it_is_seen_by_who_waits():
    page = Page(FRESH)
    page.go.clear()
    with behind(page, CACHE + "cache-wait 60s") as (lardd, _):
        crowd = Crowd(lardd, 3)
        until(lambda: lardd.counter("LardCacheWaited") == 2, what="2 wait")
        page.body = "two"
        deletes = threading.Thread(target=lardd.ask, args=(b"DELETE /x HTTP/1.0\r\nHost: h\r\n\r\n",))
        deletes.start()
        until(lambda: page.asked == 2, what="the change is under way")
        page.go.set()
        deletes.join()
        crowd.join()
        assert bytes(lardd.get("/x")[2]) == b"two"


def a_change_of_one_page_keeps_no_other_out():
    """Anybody may POST to a page that answers, as often as he likes."""
    def script(_peer, head, _body):
        if head.startswith(b"POST"):
            return text("done"), True
        slow.wait(60)
        return text("page", FRESH), True
    slow = threading.Event()
    with behind(script, CACHE) as (lardd, origin):
        crowd = Crowd(lardd, 1)
        until(lambda: len(origin.requests) == 1, what="it asks")
        assert lardd.ask(b"POST /other HTTP/1.0\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200")
        slow.set()
        crowd.join()
        until(lambda: lardd.counter("LardCacheStored") == 1, what="it is kept")
        lardd.get("/x")
        assert len(origin.requests) == 2, origin.requests
        slow.clear()
        crowd = Crowd(lardd, 1, "/y")
        until(lambda: len(origin.requests) == 3, what="it asks")
        assert lardd.ask(b"POST /y HTTP/1.0\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200")
        slow.set()
        crowd.join()
        until(lambda: lardd.counter("LardCacheDropped") == 1, what="what was changed is not kept")
        assert lardd.counter("LardCacheStored") == 1


def what_is_fresh_needs_no_node():
    with cluster(1, CACHE) as lardd:
        target = answer_with(1000, FRESH)
        lardd.get(target)
        lardd.backends[0].stop()
        until(lambda: lardd.control("nodes")["nodes"][0]["state"] == "down", what="the node is down")
        assert lardd.get(target)[2] == content(1000)
        assert lardd.get("/size/5")[0] == 503


def what_is_cleared_is_fetched_again():
    with cluster(1, CACHE) as lardd:
        pages = [answer_with(100, FRESH, f"xkey: {tags}").replace("|", "%7C") for tags in ("a,b", "b", "c")]

        def fetched():
            before = len(lardd.backends[0].seen)
            for page in pages:
                lardd.get(page)
            return len(lardd.backends[0].seen) - before
        assert [fetched(), fetched()] == [3, 0]
        for how, count in (({"tag": "b"}, 2), ({"tag": "a"}, 1), ({"tag": "ab"}, 0), ({"tag": "c"}, 1),
                           ({"url": f"http://H{pages[0]}"}, 1), ({"url": "http://other" + pages[0]}, 0),
                           ({"url": f"http://h:{lardd.port}{pages[2]}"}, 0), ({}, 3)):
            answer = lardd.control("clear", **how)
            assert answer == {"cleared": count}, (how, answer)
            assert [fetched(), fetched()] == [count, 0], how
        for how in ({"tag": ""}, {"tag": "a b"}, {"url": "x"}, {"url": 1}, {"tag": "a", "url": "http://h/"}):
            assert "error" in lardd.control("clear", **how), how


def wrong_directives_are_refused():
    with cluster(1) as lardd:
        for line, good in (("cache-class image on", True), ("cache-class image on 5m", True),
                           ("cache-class image", False), ("cache-class pictures on", False),
                           ("cache-class image maybe", False), ("cache-class image on soon", False),
                           ("cache-dynamic cgi", False), ("cache-dynamic /cgi/ /app/", True),
                           ("cache-grace 5s", True), ("cache-wait x", False), ("cache-kernel on", False),
                           ("cache-kernel on\ncache-size 4000000", True), ("miss proxy", True), ("miss local", False),
                           (f"miss handoff 127.0.0.1:{lardd.port}", True), ("miss proxy 127.0.0.1:1", False),
                           ("miss", False), ("miss proxy nowhere", False)):
            lardd.configure(line)
            check = subprocess.run([LARDD, "--check", "-c", lardd.config_path], capture_output=True,
                                   text=True, check=False)
            assert (check.returncode == 0) == good, (line, check)


def without_the_device_lardd_goes_on():
    if os.path.exists("/dev/afpa"):
        raise kit.Skip("afpa.ko is loaded")
    with cluster(1, CACHE + "cache-kernel on") as lardd:
        target = answer_with(1000, FRESH)
        for _ in range(2):
            assert lardd.get(target)[2] == content(1000)
        cache = lardd.control("status")["cache"]
        assert cache["kernel"] == "off" and "/dev/afpa" in cache["kernel_why"], cache
        assert lardd.log().count("event=cache-kernel") == 1 and lardd.counter("LardCacheHits") == 1


if __name__ == "__main__":
    sys.exit(main([each_setting_of_the_classes_keeps_its_own, a_lifetime_of_a_class_ends,
                   who_can_decode_the_same_shares_an_answer, a_proxy_before_us_says_how_its_client_came,
                   surrogate_control_is_for_us_alone, many_misses_are_one_fetch, so_it_is_with_several_workers,
                   who_waits_does_not_wait_for_ever, what_is_not_kept_is_waited_for_once,
                   why_an_answer_is_not_kept_is_explained,
                   what_one_client_asks_oddly_others_wait_for_all_the_same, who_asks_and_leaves_leaves_nobody_behind,
                   who_takes_it_slowly_holds_nobody_up, who_leaves_amid_the_answer_leaves_it_to_the_others,
                   what_nobody_takes_holds_no_node_for_ever, what_http_1_0_cannot_tell_from_a_cut_one_is_not_kept,
                   what_there_is_no_room_for_is_waited_for_once, clients_that_wait_and_leave_are_forgotten,
                   a_change_amid_it_is_seen_by_who_waits, a_change_of_one_page_keeps_no_other_out,
                   what_is_fresh_needs_no_node, what_is_cleared_is_fetched_again, wrong_directives_are_refused,
                   without_the_device_lardd_goes_on]))
