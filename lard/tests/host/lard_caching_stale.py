#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""What lardd's cache does with what is stale: served, asked for behind, and with conditions."""

import itertools
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import behind, main, read_answer, until  # noqa: E402
from pages import Crowd, Page, text  # noqa: E402

CACHE = "cache-size 4000000\ncache-object-max 1000000\n"
FRESH = "Cache-Control: max-age=600"
ETAG = 'ETag: "one"'


def stale(lardd, page, body="two"):
    """The page is in the cache, no more fresh, and another by now."""
    lardd.get("/x")
    page.body = body
    time.sleep(1.1)


def what_is_stale_is_served_at_once_and_asked_for_behind():
    """By lardd, as nobody in particular: with none of the fields of whoever came first."""
    for fields, extra in ((("Cache-Control: max-age=1, stale-while-revalidate=600",), ""),
                          (("Cache-Control: max-age=1",), "cache-grace 600s"),
                          (("Surrogate-Control: max-age=1+600",), "")):
        page = Page(*fields)
        with behind(page, CACHE + "cache-wait 60s\n" + extra) as (lardd, origin):
            stale(lardd, page)
            page.go.clear()
            for _ in range(5):
                assert bytes(lardd.get("/x", "Cookie: a=b\r\nX-Odd: 1\r\nAccept-Encoding: br, gzip\r\n")[2]) == b"one"
            until(lambda p=page: p.asked == 2, what="lardd asks")
            assert (lardd.counter("LardCacheStale"), lardd.counter("LardCacheRefreshed")) == (5, 1)
            assert origin.requests[-1].split(b"\r\n")[:2] == [b"GET /x HTTP/1.1", b"Host: h"], origin.requests[-1]
            assert b"Accept-Encoding: gzip, br\r\n" in origin.requests[-1] + b"\r\n"
            names = {line.split(b":")[0].lower() for line in origin.requests[-1].split(b"\r\n")}
            assert not {b"cookie", b"x-odd"} & names, names
            page.go.set()
            until(lambda log=lardd: log.counter("LardCacheStored") == 2, what="the new one is stored")
            assert bytes(lardd.get("/x")[2]) == b"two" and page.asked == 2
            until(lambda log=lardd: sum(log.control("status")["connections"].values()) == 0, what="all gone")
            assert lardd.load() == 0


def what_is_stale_and_gone_is_not_served_again():
    page = Page("Cache-Control: max-age=1, stale-while-revalidate=600", ETAG)
    with behind(page, CACHE) as (lardd, _):
        stale(lardd, page)
        page.status = "404 Gone"
        assert bytes(lardd.get("/x")[2]) == b"one"
        until(lambda: lardd.get("/x")[0] == 404, what="it is gone")
        assert lardd.control("status")["cache"]["entries"] == 0


class Changing:
    """A page that says whether it has changed."""

    def __init__(self, *fields, etag=None, modified=None):
        self.fields, self.etag, self.modified, self.body = fields, etag, modified, "b" * 50_000
        self.later, self.asked, self.said = (), [], []

    def __call__(self, _peer, head, _body):
        lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        self.asked.append(lines)
        marks = [f"{name}: {value}" for name, value in (("ETag", self.etag), ("Last-Modified", self.modified)) if value]
        same = lines.get(b"If-None-Match") == self.etag.encode() if self.etag else \
            lines.get(b"If-Modified-Since") == (self.modified or "-").encode()
        self.said.append(304 if same else 200)
        if same:
            head = "".join(f"{field}\r\n" for field in (*marks, *self.later))
            return f"HTTP/1.1 304 Not Modified\r\n{head}\r\n".encode(), True
        return text(self.body, *self.fields, *marks), True


def what_has_not_changed_is_not_sent_again():
    """The back-end is asked by condition; its 304 says how long the page is good from now on."""
    date = "Sat, 01 Jan 2022 00:00:00 GMT"
    for marks, swr in itertools.product(({"etag": '"one"'}, {"modified": date}, {"etag": 'W/"w"', "modified": date}),
                                        ("", ", stale-while-revalidate=600")):
        page = Changing("Cache-Control: max-age=1" + swr, "Content-Type: text/odd", "X-Was: 1", "X-Is: 1", **marks)
        page.later = ("Cache-Control: max-age=600", "X-Is: 2", "Content-Type: text/wrong", "Content-Length: 7")
        with behind(page, CACHE) as (lardd, _):
            lardd.get("/x")
            time.sleep(1.1)
            assert lardd.get("/x")[2] == page.body.encode()
            until(lambda log=lardd: log.counter("LardCacheRevalidated") == 1, what="it is good again")
            for _ in range(3):
                status, fields, body = lardd.get("/x")
                assert (status, body) == (200, page.body.encode()) and int(fields["age"]) < 60
                assert (fields["x-was"], fields["x-is"], fields["content-type"]) == ("1", "2", "text/odd"), fields
                assert fields["cache-control"] == "max-age=600", fields
            head = lardd.ask(b"GET /x HTTP/1.0\r\nHost: h\r\n\r\n").partition(b"\r\n\r\n")[0].lower()
            assert head.count(b"content-type") == head.count(b"content-length") == head.count(b"x-is") == 1, head
            assert page.said == [200, 304], page.said
            assert lardd.counter("LardBackendSurplus") == 0 and lardd.load() == 0


def what_has_changed_comes_anew():
    page = Changing("Cache-Control: max-age=1", etag='"one"')
    with behind(page, CACHE) as (lardd, _):
        lardd.get("/x")
        page.body, page.etag = "new", '"two"'
        time.sleep(1.1)
        assert lardd.get("/x", 'If-None-Match: "one"\r\n')[2] == b"new" and page.said == [200, 200]
        # What a cookie may change is not asked for by condition, and no condition of a client's goes on.
        time.sleep(1.1)
        lardd.get("/x", 'Cookie: a=b\r\nIf-None-Match: "two"\r\n')
        assert page.said == [200, 200, 200] and b"If-None-Match" not in page.asked[-1]


def a_304_that_is_of_another_page_is_not_believed():
    def script(_peer, head, _body):
        if b"If-None-Match" in head:
            return b'HTTP/1.1 304 Not Modified\r\nETag: "other"\r\nCache-Control: max-age=600\r\n\r\n', True
        return text("page", "Cache-Control: max-age=1", ETAG), True
    with behind(script, CACHE) as (lardd, _):
        lardd.get("/x")
        time.sleep(1.1)
        assert lardd.get("/x")[0] == 502
        assert lardd.get("/x")[2] == b"page"        # which is asked for without a condition
        # Nor is one that asks for cookies kept, though it is what there is.
    page = Changing("Cache-Control: max-age=1", etag='"one"')
    page.later = ("Cache-Control: max-age=600", "Set-Cookie: a=b")
    with behind(page, CACHE) as (lardd, _):
        lardd.get("/x")
        time.sleep(1.1)
        _, fields, body = lardd.get("/x")
        assert body == page.body.encode() and "set-cookie" not in fields
        assert lardd.control("status")["cache"]["entries"] == 0 and lardd.counter("LardCacheRevalidated") == 0


def no_condition_of_a_clients_joins_ours_by_another_name():
    """CGI and WSGI read If_None_Match as If-None-Match."""
    state = {"tag": "one"}

    def script(_peer, head, _body):
        asked = [line.split(b": ")[1] for line in head.split(b"\r\n")
                 if line.lower().replace(b"_", b"-").startswith(b"if-none-match")]
        if f'"{state["tag"]}"'.encode() in asked:
            return b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n", True
        return text(state["tag"], "Cache-Control: max-age=1", f'ETag: "{state["tag"]}"'), True
    with behind(script, CACHE) as (lardd, _):
        lardd.get("/x")
        state["tag"] = "two"
        time.sleep(1.1)
        lardd.get("/x", 'If_None_Match: "two"\r\n')
        assert bytes(lardd.get("/x")[2]) == b"two"


def an_error_that_one_client_can_make_keeps_nothing_alive():
    """lardd asks behind it, as anybody would."""
    state = {"body": "one"}

    def script(_peer, head, _body):
        if b"X-Evil" in head:
            return text("broken", status="500 Broken"), True
        return text(state["body"], "Cache-Control: max-age=1, stale-if-error=600"), True
    with behind(script, CACHE) as (lardd, origin):
        lardd.get("/x")
        state["body"] = "two"
        time.sleep(1.1)
        assert bytes(lardd.get("/x", "X-Evil: 1\r\n")[2]) == b"one"
        until(lambda: lardd.counter("LardCacheStored") == 2, what="the new one is stored")
        assert bytes(lardd.get("/x")[2]) == b"two" and len(origin.requests) == 3


def what_is_asked_for_behind_keeps_no_client_out():
    """One connection can make many pages be asked for, more than nodes and queue have places."""
    page = Page("Cache-Control: max-age=1, stale-while-revalidate=600")
    with behind(page, CACHE + "max-queue 10") as (lardd, _), lardd.connect() as s, s.makefile("rb") as stream:
        def each():
            for i in range(100):
                s.sendall(f"GET /x?{i} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                assert read_answer(stream)[0] == 200
        each()
        time.sleep(1.1)
        page.go.clear()
        each()
        assert lardd.counter("LardCacheRefreshed") == 100
        assert lardd.control("status")["connections"]["queued"] == 0
        crowd = Crowd(lardd, 1, "/other")
        until(lambda: lardd.control("status")["connections"]["queued"] == 1, what="it waits")
        page.go.set()
        assert crowd.join() == [(200, "one")]
        until(lambda: lardd.load() == 0, what="all is answered")


def who_asks_past_what_is_stored_says_nothing_of_it():
    """What he alone gets, which is not kept, is no reason to go past the cache, or to hand others off."""
    def script(_peer, head, _body):
        if b"X-Odd" in head:
            return text("moved", "Location: /odd", status="302 Found"), True
        return text("page", "Cache-Control: max-age=1, stale-while-revalidate=600"), True
    with behind(script, CACHE) as (lardd, _):
        lardd.get("/x")
        assert lardd.get("/x", "Cache-Control: no-cache\r\nX-Odd: 1\r\n")[0] == 302
        time.sleep(1.1)
        assert bytes(lardd.get("/x")[2]) == b"page"
        assert lardd.counter("LardCacheStale") == lardd.counter("LardCacheRefreshed") == 1


def without_leave_nothing_stale_is_served():
    for fields, extra in ((("Cache-Control: max-age=1",), ""),
                          (("Cache-Control: max-age=1, must-revalidate",),
                           "cache-grace 600s\ncache-stale-if-error 600s")):
        page = Page(*fields)
        with behind(page, CACHE + extra) as (lardd, origin):
            stale(lardd, page)
            assert bytes(lardd.get("/x")[2]) == b"two"
            time.sleep(1.1)
            page.status = "503 Away"
            assert lardd.get("/x")[0] == 503
            origin.stop()
            assert lardd.get("/x")[0] in (502, 503)


def what_is_stale_is_served_while_back_ends_fail():
    for fields, extra in ((("Cache-Control: max-age=1, stale-if-error=600",), ""),
                          (("Cache-Control: max-age=1",), "cache-stale-if-error 600s")):
        page = Page(*fields)
        with behind(page, CACHE + "io-timeout 2s\n" + extra) as (lardd, origin):
            stale(lardd, page)
            page.status = "503 Away"
            status, headers, body = lardd.get("/x")
            assert (status, bytes(body)) == (200, b"one") and int(headers["age"]) >= 1, headers
            asked = page.asked
            assert asked >= 2
            time.sleep(1.1)                             # it is asked again after a second
            page.status = "404 Gone"
            assert lardd.get("/x")[0] == 404            # which is an answer
            page.status = "200 OK"
            stale(lardd, page, "three")
            page.go.clear()
            assert bytes(lardd.get("/x")[2]) == b"two"  # nobody answers in time
            page.go.set()
            origin.stop()
            until(lambda log=lardd: log.control("nodes")["nodes"][0]["state"] == "down", what="the node is down")
            for _ in range(3):
                assert bytes(lardd.get("/x")[2]) == b"two"
            with lardd.connect() as s, s.makefile("rb") as stream:
                for _ in range(3):                      # and a kept connection stays
                    s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                    assert bytes(read_answer(stream)[2]) == b"two"
            assert lardd.get("/other")[0] == 503
            assert lardd.load() == 0


if __name__ == "__main__":
    sys.exit(main([what_is_stale_is_served_at_once_and_asked_for_behind, what_is_stale_and_gone_is_not_served_again,
                   what_has_not_changed_is_not_sent_again, what_has_changed_comes_anew,
                   a_304_that_is_of_another_page_is_not_believed,
                   no_condition_of_a_clients_joins_ours_by_another_name,
                   an_error_that_one_client_can_make_keeps_nothing_alive,
                   what_is_asked_for_behind_keeps_no_client_out, who_asks_past_what_is_stored_says_nothing_of_it,
                   without_leave_nothing_stale_is_served, what_is_stale_is_served_while_back_ends_fail]))
