#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
"""The response cache of lardd's proxy: what it keeps, for how long, and whom it answers."""

import os
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, answer_with, behind, cluster, content, main, read_answer, until  # noqa: E402

CACHE = "cache-size 4000000\ncache-object-max 1000000\n"
FRESH = "Cache-Control: max-age=600"
ETAG = 'ETag: "one,two"'
DATE = "Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT"


def asked(lardd):
    return len(lardd.backends[0].seen)


def a_fresh_answer_needs_no_back_end():
    with cluster(1, CACHE) as lardd:
        for size in (1, 1000, 65536, 999_999):
            target = answer_with(size, FRESH, "X-Other: kept", "Age: 7")
            first = lardd.get(target)
            for _ in range(3):
                status, fields, body = lardd.get(target)
                assert (status, body) == (200, content(size)), size
                assert fields["x-other"] == "kept" and int(fields["age"]) >= 7, fields
            assert first[2] == content(size)
        assert asked(lardd) == 4
        assert lardd.counter("LardCacheHits") == 12 and lardd.counter("LardCacheStored") == 4
        assert lardd.control("status")["cache"]["entries"] == 4
        assert lardd.load() == 0


def what_is_not_declared_fresh_for_all_is_fetched_again():
    cases = [("X: y",), ("Cache-Control: max-age=0",), ("Cache-Control: no-store, max-age=60",),
             ("Cache-Control: private, max-age=60",), ("Cache-Control: max-age=60", "Cache-Control: no-cache"),
             (FRESH, "Set-Cookie: a=b"), (FRESH, "Vary: Accept"), (FRESH, "Age: 600"),
             ("Cache-Control: max-age=600, s-maxage=0",), ("Cache-Control: max-age=nonsense",),
             ('Cache-Control: no-cache="a, b", max-age=60',)]
    with cluster(1, CACHE) as lardd:
        for number, fields in enumerate(cases, 1):
            target = answer_with(100, *fields)
            assert lardd.get(target)[2] == lardd.get(target)[2] == content(100)
            assert asked(lardd) == 2 * number, fields
        assert lardd.counter("LardCacheStored") == 0


def without_the_directive_there_is_no_cache():
    with cluster(1) as lardd:
        target = answer_with(100, FRESH)
        assert lardd.get(target)[2] == lardd.get(target)[2] == content(100)
        assert asked(lardd) == 2 and lardd.control("status")["cache"]["limit"] == 0


def requests_that_concern_one_client_pass_it_by():
    with cluster(1, CACHE) as lardd:
        target = answer_with(100, FRESH)
        lardd.get(target)
        for number, field in enumerate(("Authorization: Basic x", "Range: bytes=0-1", "If-Match: *",
                                        "Cache-Control: no-store", "Cache-Control: no-cache",
                                        "Cache-Control: max-age=0", "Pragma: no-cache"), 2):
            lardd.get(target, field + "\r\n")
            assert asked(lardd) == number, field
        assert lardd.counter("LardCacheHits") == 0
        # A cookie of the request does not spoil what is there, but what comes is stored only if public.
        lardd.get(target, "Cookie: a=b\r\n")
        assert lardd.counter("LardCacheHits") == 1
        other, shared = answer_with(101, FRESH), answer_with(102, FRESH + ", public")
        for what, hits in ((other, 1), (shared, 2)):
            lardd.get(what, "Cookie: a=b\r\n")
            lardd.get(what)
            assert lardd.counter("LardCacheHits") == hits, what


def a_client_that_has_it_is_told_so():
    with cluster(1, CACHE) as lardd:
        target = answer_with(5000, FRESH, ETAG, DATE)
        lardd.get(target)
        for field in ('If-None-Match: "one,two"', 'If-None-Match: "x", W/"one,two"', "If-None-Match: *",
                      DATE.replace("Last-Modified", "If-Modified-Since")):
            status, fields, body = lardd.get(target, field + "\r\n")
            assert (status, body) == (304, b""), field
            assert fields["etag"] == '"one,two"' and "content-length" not in fields, fields
        for field in ('If-None-Match: "other"', "If-None-Match: one,two",
                      "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"):
            assert lardd.get(target, field + "\r\n")[2] == content(5000), field
        assert asked(lardd) == 1 and lardd.counter("LardCacheUnchanged") == 4


def a_head_request_is_answered_too():
    with cluster(1, CACHE) as lardd, lardd.connect() as s:
        target = answer_with(5000, FRESH)
        lardd.get(target)
        s.sendall(f"HEAD {target} HTTP/1.1\r\nHost: h\r\n\r\nGET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        stream = s.makefile("rb")
        assert read_answer(stream, head=True)[1]["content-length"] == "5000"
        assert read_answer(stream)[2] == content(5000)
        assert asked(lardd) == 1


def a_change_takes_it_out():
    with cluster(1, CACHE) as lardd:
        target = answer_with(100, FRESH)
        lardd.get(target)
        answer = lardd.ask(f"DELETE {target} HTTP/1.0\r\nHost: h\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200"), answer
        lardd.get(target)
        assert asked(lardd) == 3 and lardd.counter("LardCacheHits") == 0


def a_target_is_one_however_it_is_written():
    """A whole address asks for the same as its path; what changes one changes the other."""
    with cluster(1, CACHE) as lardd:
        target = answer_with(100, FRESH)

        def ask(method, what):
            answer = lardd.ask(f"{method} {what} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 200"), answer
            return asked(lardd)
        assert [ask("GET", target), ask("GET", "http://h" + target)] == [1, 1]
        assert [ask("DELETE", "http://h" + target), ask("GET", target)] == [2, 3]
        assert [ask("GET", "HTTP://h" + target), ask("DELETE", target), ask("GET", "http://h" + target)] == [3, 4, 5]


def what_was_asked_before_a_change_is_not_kept():
    """However late its answer comes: it may be of before."""
    before, changed = threading.Event(), threading.Event()
    gets = []

    def script(_peer, head, _body):
        if head.startswith(b"GET"):
            gets.append(head)
            before.set()
            assert len(gets) > 1 or changed.wait(30)
        return b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\nx", True
    with behind(script, CACHE) as (lardd, _), lardd.connect() as s, s.makefile("rb") as stream:
        s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        assert before.wait(30)
        assert lardd.ask(b"DELETE /x HTTP/1.0\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200")
        changed.set()
        assert read_answer(stream)[0] == 200
        for count in (2, 2):
            assert lardd.get("/x")[0] == 200 and len(gets) == count, gets


def other_hosts_have_other_answers():
    with cluster(1, CACHE) as lardd:
        target = answer_with(100, FRESH)
        for host, count in ((b"a", 1), (b"b", 2), (b"a", 2)):
            lardd.ask(b"GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" % (target.encode(), host))
            assert asked(lardd) == count


def it_is_not_served_when_it_is_stale():
    with cluster(1, CACHE) as lardd:
        target = answer_with(100, "Cache-Control: max-age=1")
        lardd.get(target)
        until(lambda: lardd.get(target) and asked(lardd) == 2, what="a second fetch")


def memory_is_bounded_and_what_was_used_last_stays():
    with cluster(1, "cache-size 200000\ncache-object-max 50000") as lardd:
        favourite = answer_with(20_000, FRESH)
        lardd.get(favourite)
        for i in range(30):
            lardd.get(answer_with(20_000, FRESH, f"X-Number: {i}"))
            lardd.get(favourite)
            cache = lardd.control("status")["cache"]
            assert cache["bytes"] <= 200_000, cache
        assert asked(lardd) == 31
        assert cache["evictions"] >= 20 and cache["entries"] >= 5, cache
        lardd.get(answer_with(50_001, FRESH))
        lardd.get(answer_with(50_001, FRESH))
        assert asked(lardd) == 33
        lardd.configure("cache-size 0")
        lardd.reload()
        until(lambda: lardd.control("status")["cache"]["bytes"] == 0, what="an empty cache")
        assert lardd.get(favourite)[2] == content(20_000) and asked(lardd) == 34


def pipelined_hits_and_misses_come_in_order():
    with cluster(1, CACHE) as lardd, lardd.connect() as s:
        sizes = [3000, 900_000, 5, 3000, 900_000, 70_000, 5, 900_000]
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        s.sendall(b"".join(f"GET {answer_with(n, FRESH)} HTTP/1.1\r\nHost: h\r\n\r\n".encode() for n in sizes))
        stream = s.makefile("rb", buffering=4096)
        for size in sizes:
            assert read_answer(stream)[2] == content(size), size
        assert asked(lardd) == 4


def a_truncated_answer_is_not_stored():
    with cluster(1, CACHE) as lardd:
        target = answer_with(100_000, FRESH)
        lardd.backends[0].cut = 90_000
        with lardd.connect() as s:
            s.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            try:
                assert len(s.makefile("rb").read()) < 100_000
            except ConnectionResetError:
                pass
        lardd.backends[0].cut = None
        until(lambda: lardd.counter("LardCacheDropped") == 1, what="the end of the first")
        assert lardd.get(target)[2] == content(100_000)


def pieces(body, at=(), trailer=""):
    """Chunked, in chunks that end at these places."""
    ends = [*at, len(body)]
    chunks = [body[start:stop] for start, stop in zip([0, *at], ends)]
    return b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk) + \
        b"0\r\n" + trailer.encode() + b"\r\n"


CHUNKED = f"HTTP/1.1 200 OK\r\n{FRESH}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n".encode()
UNTIL_END = f"HTTP/1.1 200 OK\r\n{FRESH}\r\n\r\n".encode()


def an_answer_without_a_length_is_kept_with_one():
    """In chunks, which most programs send, or until the connection ends."""
    bodies = {f"/{how}/{size}": content(size)
              for how in ("chunks", "slow", "end") for size in (0, 1, 5000, 70_000, 999_999)}

    def script(peer, head, _body):
        path = head.split()[1].decode()
        body, how = bodies[path], path.split("/")[1]
        if how == "end":
            peer.sendall(UNTIL_END + body[:3000])
            return body[3000:], False
        answer = CHUNKED + pieces(body, range(0, len(body), 1 + len(body) // 7), "X-Sum: 1\r\n")
        if how == "slow":                               # the header alone, and chunks cut anywhere
            for at in (len(CHUNKED), len(CHUNKED) + 1, len(CHUNKED) + 20, len(answer) // 2):
                peer.sendall(answer[:at])
                time.sleep(0.02)
                answer = answer[at:]
        return answer, True
    with behind(script, CACHE) as (lardd, origin):
        for version in ("HTTP/1.1", "HTTP/1.0"):
            for path, body in bodies.items():
                if version == "HTTP/1.0" and path.startswith("/end/"):      # it may be cut, see lard_caching
                    continue
                before = len(origin.requests)
                assert lardd.get(path, version=version)[2] == body, path
                until(lambda: lardd.load() == 0, what="its end")
                for _ in range(2):
                    status, fields, got = lardd.get(path)
                    assert (status, got, fields["content-length"]) == (200, body, str(len(body))), path
                    assert not {"transfer-encoding", "trailer", "x-sum"} & set(fields), fields
                assert len(origin.requests) == before + 1, path
            lardd.control("clear")
        # A kept connection gets them one after another.
        with lardd.connect() as s, s.makefile("rb") as stream:
            s.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
                               for path in bodies if "end" not in path))
            for path, body in bodies.items():
                assert "end" in path or read_answer(stream)[2] == body, path
        assert lardd.counter("LardBackendSurplus") == 0 and lardd.load() == 0
        bytes_kept = lardd.control("status")["cache"]["bytes"]
        assert bytes_kept < 2 * (999_999 + 70_000 + 10_000), bytes_kept


def a_cut_answer_without_a_length_is_not_kept():
    body = content(100_000)

    def script(peer, head, _body):
        if b" /reset " in head:
            peer.sendall(UNTIL_END + body[:50_000])
            time.sleep(0.2)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.close()
            raise OSError
        if b" /bad " in head:
            return CHUNKED + pieces(body)[:50_000] + b"z" * 60_000, False
        return CHUNKED + pieces(body, (40_000,))[:50_000], False
    with behind(script, CACHE) as (lardd, origin):
        for path in ("/chunks", "/reset", "/bad"):
            for count in (1, 2):
                answer = lardd.ask(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
                assert not answer.endswith(b"0\r\n\r\n"), answer[-100:]
                until(lambda c=count, p=path.encode(): sum(p in r for r in origin.requests) >= c, what="it is asked")
        assert lardd.counter("LardCacheStored") == 0 and lardd.counter("LardCacheHits") == 0
        until(lambda: lardd.load() == 0, what="no load")
        assert lardd.control("status")["cache"]["bytes"] == 0


def what_turns_out_to_be_too_large_is_passed_on():
    """Its memory is bounded, its bytes are all there, and nobody waits for it any more."""
    body = content(15_000_000)
    with behind(lambda *_: (CHUNKED + pieces(body, range(0, len(body), 100_000)), True), CACHE) as (lardd, origin):
        for _ in range(2):
            with lardd.connect() as s, s.makefile("rb") as stream:
                s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
                until(lambda: origin.requests, what="it is asked")
                time.sleep(0.3)                         # it takes nothing for now
                assert lardd.control("status")["cache"]["bytes"] < 1_200_000
                assert read_answer(stream)[2] == body
        assert len(origin.requests) == 2 and lardd.counter("LardCacheStored") == 0
        until(lambda: lardd.control("status")["cache"]["bytes"] == 0, what="no memory of it")
        threads = [threading.Thread(target=lambda: lardd.get("/x")) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert lardd.counter("LardCacheWaited") == 0


def a_senseless_bound_is_refused():
    with cluster(1) as lardd:
        for line, good in (("cache-size 100", False), ("cache-size 100\ncache-object-max 50", True),
                           ("cache-size many", False), ("cache-object-max 0", False)):
            lardd.configure(line)
            check = subprocess.run([LARDD, "--check", "-c", lardd.config_path], capture_output=True,
                                   text=True, check=False)
            assert (check.returncode == 0) == good and ("cache" in check.stderr) != good, (line, check)


def who_takes_nothing_evicts_nothing():
    """What does not fit is known before anything goes; what is being filled is not all of the cache."""
    with cluster(1, "cache-size 16000000\ncache-object-max 8000000\nsplice-min 0\nclient-rate 0") as lardd:
        small = [answer_with(10000, FRESH, f"X: {n}") for n in range(50)]

        def hits(targets):
            before = lardd.counter("LardCacheHits")
            for target in targets:
                assert lardd.get(target)[0] == 200
            return lardd.counter("LardCacheHits") - before
        assert hits(small) == 0
        until(lambda: lardd.counter("LardCacheStored") == 50, what="all stored")
        slow = []
        for n, size in enumerate((7_990_000, 7_900_000, 7_800_000, 7_700_000, 900_000)):
            slow.append(socket.socket())
            slow[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow[-1].connect(("127.0.0.1", lardd.port))
            target = answer_with(size, FRESH, f"Y: {n}")
            slow[-1].sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            assert slow[-1].recv(1) == b"H"
            assert hits(small) == 50, (n, lardd.control("status")["cache"])
        more = [answer_with(10000, FRESH, f"Z: {n}") for n in range(5)]
        assert hits(more) == 0                          # and there is room for others
        until(lambda: hits(more) == 5, what="they are stored")
        assert lardd.control("status")["cache"]["evictions"] == 0
        for s in slow:
            s.close()
        until(lambda: lardd.load() == 0, what="no load")
        # What was given up is room again: old ones make place as ever.
        for n in range(6):
            large = [answer_with(7_000_000, FRESH, f"Q: {n}")]
            assert hits(large) == 0
            until(lambda large=large: hits(large) == 1, what="it is stored")
        now = lardd.control("status")["cache"]
        assert now["entries"] >= 2 and now["bytes"] <= 16_000_000, now


if __name__ == "__main__":
    sys.exit(main([a_fresh_answer_needs_no_back_end, what_is_not_declared_fresh_for_all_is_fetched_again,
                   without_the_directive_there_is_no_cache, requests_that_concern_one_client_pass_it_by,
                   a_client_that_has_it_is_told_so, a_head_request_is_answered_too, a_change_takes_it_out,
                   a_target_is_one_however_it_is_written, what_was_asked_before_a_change_is_not_kept,
                   other_hosts_have_other_answers, it_is_not_served_when_it_is_stale,
                   memory_is_bounded_and_what_was_used_last_stays, pipelined_hits_and_misses_come_in_order,
                   a_truncated_answer_is_not_stored, an_answer_without_a_length_is_kept_with_one,
                   a_cut_answer_without_a_length_is_not_kept, what_turns_out_to_be_too_large_is_passed_on,
                   a_senseless_bound_is_refused,
                   who_takes_nothing_evicts_nothing]))
