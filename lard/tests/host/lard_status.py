#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The status page: its numbers, whole HTML, hostile names, and readers that take a place for nothing."""

import contextlib
import html.parser
import json
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import PRETENDER, answer_with, cluster, content, free_port, kernel_counters, kit     # noqa: E402
from lardd import main, read_answer, receive_all, until         # noqa: E402

CACHEABLE = answer_with(10, "Cache-Control: max-age=100")
PLACES = 64
VOID = {"meta", "link"}
HOSTILE = "/<script>alert(1)</script><img/src=x/onerror=alert(2)>'\"&amp;\\</th>"


class Page(html.parser.HTMLParser):
    """Everything that is opened is closed, in that order; texts of an element by its id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.texts, self.attributes = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open
        assert len(set(self.ids)) == len(self.ids), self.ids

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), attrs
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data.strip()))


def fetch(port, target="/", method="GET"):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return read_answer(s.makefile("rb"), method == "HEAD")


def numbers(port):
    code, fields, body = fetch(port, "/status.json")
    assert code == 200 and fields["content-type"] == "application/json"
    return json.loads(body)


def json_agrees_with_what_was_sent():
    port = free_port()
    with cluster(3, f"status 127.0.0.1:{port}\ncache-size 4000000\nworkers 2\n"
                    "node spare 127.0.0.1:1 admin drain") as lardd:
        sent = [f"/x{n}" for n in range(12) for _ in range(n + 1)]
        threads = [threading.Thread(target=lambda part: [lardd.get(t) for t in part], args=(sent[i::4],))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lardd.get(CACHEABLE)
        until(lambda: lardd.counter("LardCacheStored") == 1, what="it is stored")   # after it was sent
        for _ in range(4):
            lardd.get(CACHEABLE)
        lardd.ask(b"nonsense\r\n\r\n")
        lardd.get("/die")
        until(lambda: lardd.load() == 0, what="load 0")     # the cache's answers are no load
        until(lambda: numbers(port)["latency"]["cache"]["requests"] == 4, what="4 answers of the cache")
        until(lambda: sum(of["total"] for of in numbers(port)["responses"].values()) == len(sent) + 7,
              what="all are counted")
        got, counters = numbers(port), lardd.control("stats")
        assert {name: of["total"] for name, of in got["counters"].items()} == counters["counters"]
        assert {name: of["total"] for name, of in got["decisions"].items()} == counters["reasons"]
        assert got["counters"]["LardRequests"]["total"] == len(sent) + 6
        assert {name: of["total"] for name, of in got["responses"].items()} == \
               {"1xx": 0, "2xx": len(sent) + 5, "3xx": 0, "4xx": 1, "5xx": 1}
        assert got["latency"]["proxy"]["requests"] == len(sent) + 1 and got["latency"]["cache"]["requests"] == 4
        until(lambda: len(numbers(port)["requests_per_second"]) >= 2, what="two seconds")
        assert numbers(port)["latency"]["proxy"]["requests"] == len(sent) + 1, "the first second is not left out"
        assert 0 < got["latency"]["proxy"]["p50"] <= got["latency"]["proxy"]["p99"]
        targets = {of["target"]: of for of in got["targets"]}
        for n in range(12):
            assert targets[f"h/x{n}"]["requests"] == n + 1, targets
            assert targets[f"h/x{n}"]["nodes"] == [lardd.node_of(f"/x{n}")]
        assert [t["requests"] for t in got["targets"]] == sorted((t["requests"] for t in got["targets"]), reverse=True)
        nodes = {of["name"]: of for of in got["nodes"]}
        told = {of["name"]: of for of in lardd.control("nodes")["nodes"]}
        for name, of in nodes.items():
            for key in ("state", "admin", "weight", "t_low", "t_high", "address", "eligible"):
                assert of[key] == told[name][key], (name, key)
        # The cache's answers choose none.
        assert len(sent) + 2 <= sum(of["chosen"] for of in nodes.values()) < len(sent) + 6
        assert nodes["be0"]["why"] == "its health check succeeds", nodes
        until(lambda: "its health check fails" in
              {of["name"]: of for of in numbers(port)["nodes"]}["spare"]["why"], what="why it is down")
        lardd.backends[1].stop()
        until(lambda: [of["why"] for of in numbers(port)["nodes"] if of["state"] == "down" and of["name"] == "be1"] ==
              ["its health check fails: Connection refused"], what="why be1 is down")
        assert got["cache"]["entries"] == 1 and got["cache"]["limit"] == 4000000


def rates_and_the_graph_follow_the_load():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd:
        until(lambda: len(numbers(port)["requests_per_second"]) >= 2, what="two seconds")

        def seen():
            for _ in range(50):
                lardd.get("/size/1")
            got = numbers(port)
            return sum(got["requests_per_second"]) > 20 and got["counters"]["LardRequests"]["rate"] > 0
        until(seen, what="a rate")


def card_counters_are_shown_where_card_is():
    """This machine's, as its kernel says; where there is none, or none any more, nothing is said."""
    port, other = free_port(), "flotilla CardReads 99"
    with kernel_counters(other) as tell, cluster(1, f"status 127.0.0.1:{port}", program=PRETENDER) as lardd:
        def shown():
            return "card" in numbers(port), b'id="card"' in fetch(port)[2]

        until(lambda: len(numbers(port)["requests_per_second"]) >= 2, what="two seconds")
        assert shown() == (False, False)
        counts = {"CardReads": 4200, "CardFromPeer": 70, "CardFromDisk": 10, "CardServedCached": 3, "CardServedDisk": 1}
        tell(other, *(f"card {name} {count}" for name, count in counts.items()), "card CardLost 5", "afpa CardReads 1")
        until(lambda: shown() == (True, True), what="card")
        got = numbers(port)["card"]
        assert {name: got[name]["total"] for name in counts} == counts and "CardLost" not in got, got
        assert got["CardHosted"] == {"total": 0, "rate": 0.0} and all(of["rate"] == 0 for of in got.values()), got
        text = fetch(port)[2].decode()
        assert "4\u202f200" in text.partition("CardReads")[2][:200] and "Read hits</dt><dd><b>\u2013" in text
        Page(text)
        tell("card CardReads 4200", "card CardFromPeer 80", "card CardFromCache 20", "card CardFromDisk 20")
        until(lambda: numbers(port)["card"]["CardFromPeer"]["rate"] > 0, what="a rate")
        got = {name: of["rate"] for name, of in numbers(port)["card"].items()}
        assert 0 < got["CardFromPeer"] <= 10 and abs(got["CardFromCache"] / got["CardFromPeer"] - 2) < .01, got
        assert abs(got["CardFromDisk"] / got["CardFromPeer"] - 1) < .01 and got["CardReads"] == 0, got
        assert "Read hits</dt><dd><b>75 %</b>" in fetch(port)[2].decode()
        tell(other)
        until(lambda: shown() == (False, False), what="no card")
        assert lardd.get("/size/4")[0] == 200


def page_is_whole_and_takes_nothing_from_elsewhere():
    port = free_port()
    with cluster(2, f"status 127.0.0.1:{port}\ncache-size 4000000") as lardd:
        lardd.get(CACHEABLE)
        code, fields, body = fetch(port)
        assert code == 200 and fields["content-type"] == "text/html; charset=utf-8"
        policy = fields["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert fields["cache-control"] == "no-store" and fields["x-content-type-options"] == "nosniff"
        text = body.decode()
        page = Page(text)
        assert page.tags.count("h1") == 1 and page.tags.count("h2") == 8
        assert ("html", "lang", "en") in page.attributes
        for tag, name, value in page.attributes:
            assert not name.startswith("on") and name != "style", (tag, name)
            assert name not in ("src", "href") or \
                value in ("page.css", "page.js", "status.json", "#nodes", "data:,"), value
            if name in ("aria-labelledby",):
                assert value in page.ids, value
        headers = [attrs for tag, *attrs in page.attributes if tag == "th"]
        assert len(headers) >= page.tags.count("th") and ["scope", "col"] in headers and ["scope", "row"] in headers
        assert page.tags.count("table") == 6 and ("th", "be0") in page.texts
        for path, kind in (("/page.css", "text/css"), ("/page.js", "text/javascript")):
            code, fields, body = fetch(port, path)
            assert code == 200 and fields["content-type"].startswith(kind) and len(body) > 1000
            assert b"http:" not in body and b"https:" not in body and b"@import" not in body and b"url(" not in body
        assert fetch(port, "/other")[0] == 404 and fetch(port, "/page.css/..")[0] == 404
        assert fetch(port, "/", "POST")[0] == 405
        assert fetch(port, "/", "HEAD")[2] == b"" and fetch(port, "/events", "HEAD")[0] == 200


def hostile_names_stay_text():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd:
        # As it is: a client may send what a browser would not.
        for target in (HOSTILE, "/" + "<b>" * 300, "/%3Ci%3E%00%0a%80", "/x\x80\xff?<u>"):
            lardd.ask(f"GET {target} HTTP/1.1\r\nHost: <s>&h\r\nConnection: close\r\n\r\n".encode("latin-1"))
            lardd.ask(f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode("latin-1"))
        lardd.get("/plain")
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            event = b""
            while not event.endswith(b"\n\n"):
                event += s.recv(65536)
        lines = event.decode().partition("\r\n\r\n")[2].splitlines()
        assert lines[0].startswith("retry: ") and lines[-1] == "", lines[:2]
        assert all(line.startswith("data: ") for line in lines[1:-1])
        events = "\n".join(line[6:] for line in lines[1:-1])
        for text in (fetch(port)[2].decode(), events):
            page = Page(text)
            assert not {"b", "i", "u", "s", "img"} & set(page.tags) - {"b"}, page.tags
            assert page.tags.count("script") == (text != events)
            targets = [data for tag, data in page.texts if data.startswith("h/")]
            assert "h" + HOSTILE in targets, targets
            assert any(data.startswith("h/<b><b>") and data.endswith("...") for data in targets), targets
            assert "h/plain" in targets
            assert all(" " <= c or c == "\n" for c in text)
        assert "h" + HOSTILE in [of["target"] for of in numbers(port)["targets"]]


def targets_beyond_the_places_leave_the_frequent_ones():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd:
        with lardd.connect() as s:
            stream = s.makefile("rb")
            for n in range(400):
                for target in (f"/rare{n}", "/often", "/also") if n % 2 else (f"/rare{n}", "/often"):
                    s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                    assert read_answer(stream)[0] == 200
        got = numbers(port)["targets"]
        assert [of["target"] for of in got[:2]] == ["h/often", "h/also"] and len(got) == 20, got
        assert got[0]["requests"] == 400, got[0]


def reader_is_told_each_second():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd, \
            socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\nand more, which nobody wants")
        stream = s.makefile("rb")
        code = stream.readline()
        assert code.startswith(b"HTTP/1.1 200 "), code
        while (line := stream.readline().strip()):
            assert b"Content-Length" not in line
        events = 0
        while events < 3:
            events += stream.readline() == b"\n"
        assert numbers(port)["watchers"] == 1
        lardd.get("/new")
        while b"h/new" not in stream.readline():
            pass
        s.close()
        stream.close()
        until(lambda: numbers(port)["watchers"] == 0, what="nobody told")
        assert "Sanitizer" not in lardd.log()


def deaf_readers_cost_nobody_anything():
    """A hundred who never read: clients are served, those who do read are told, and the deaf ones go."""
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd:
        for n in range(100):
            lardd.get(f"/{'t' * 100}{n}")               # a page of some size
        deaf = []
        for _ in range(100):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", port))
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            deaf.append(s)
        until(lambda: 0 < numbers(port)["watchers"] <= PLACES, what="watchers")
        began = time.monotonic()
        for _ in range(100):
            assert lardd.get("/size/100")[2] == content(100)
        assert time.monotonic() - began < kit.PATIENCE
        for _ in range(10):
            assert fetch(port)[0] == 200
        assert len(os.listdir(f"/proc/{lardd.process.pid}/fd")) < PLACES + 30
        with open(f"/proc/{lardd.process.pid}/status", encoding="ascii") as file:
            memory = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
        assert memory < 100000, memory
        until(lambda: numbers(port)["watchers"] == 0, seconds=4 * kit.PATIENCE, what="the deaf ones to go")
        for s in deaf:
            with contextlib.suppress(OSError):
                s.close()


def who_talks_while_he_is_told_is_closed():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}") as lardd, \
            socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        with contextlib.suppress(OSError):
            s.sendall(b"x" * 5000)
            while s.recv(65536):
                pass
        assert lardd.get("/size/4")[0] == 200


def takeover_takes_the_status_page_along():
    port = free_port()
    with cluster(1, f"status 127.0.0.1:{port}\nmetrics 127.0.0.1:{free_port()}") as lardd:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
            lardd.get("/old")
            old = lardd.take_over()
            receive_all(s)                              # told to come again
        for _ in range(8):
            assert numbers(port)["counters"]["LardRequests"]["total"] == 0
        assert old.wait(kit.PATIENCE) == 0


if __name__ == "__main__":
    sys.exit(main([json_agrees_with_what_was_sent, rates_and_the_graph_follow_the_load,
                   card_counters_are_shown_where_card_is,
                   page_is_whole_and_takes_nothing_from_elsewhere, hostile_names_stay_text,
                   targets_beyond_the_places_leave_the_frequent_ones, reader_is_told_each_second,
                   deaf_readers_cost_nobody_anything, who_talks_while_he_is_told_is_closed,
                   takeover_takes_the_status_page_along]))
