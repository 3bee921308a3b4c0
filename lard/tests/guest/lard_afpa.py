#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# long: debug it takes minutes there
# cpus: 2
"""lardd fills afpa.ko: the next GET is the kernel's, and nobody gets what is not for him."""

import contextlib
import itertools
import os
import random
import re
import subprocess
import sys
import threading
import time

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")
sys.path += [os.path.join(TOP, "lard/tests/lib"), os.path.join(TOP, "kmod/afpa/tests/lib")]
import afpa                                             # noqa: E402
import kit                                              # noqa: E402
from kit import claim, equal, wait_for                  # noqa: E402
import lardd as lib                                     # noqa: E402
from lardd import behind, cluster, content, read_answer, until      # noqa: E402

KERNEL = "cache-size 8000000\ncache-object-max 2000000\ncache-kernel on\n"
FRESH = "Cache-Control: max-age=600"
GET = "GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n"


def answer_with(size, *fields):
    """As a path of the kernel's."""
    return lib.answer_with(size, *fields).replace("|", "%7C")


def site(lardd):
    return ("127.0.0.1", lardd.port)


def sites(device):
    found = []
    for index in range(100):
        try:
            f = device.call(4, afpa.NEXT_SITE, index, bytes(20), 0, 0)
        except FileNotFoundError:
            return found
        found.append(f[2])
    raise AssertionError("sites without an end")


@contextlib.contextmanager
def device():
    with afpa.Device() as dev:
        try:
            yield dev
            equal("sites left", sites(dev), [])
        finally:
            dev.info(budget=64 << 20, max_object=16 << 20)
            for left in sites(dev):
                dev.call(3, afpa.SITE_ARGS, 0, left, 0, 0, 0, 0)


def asks_lardd(lardd, target, fields="", host="h"):
    """Whether a GET reaches it, and the answer."""
    before = lardd.counter("LardRequests")
    with lardd.connect() as s:
        s.sendall(GET.format(target, host, fields).encode())
        answer = read_answer(s.makefile("rb"))
    return lardd.counter("LardRequests") != before, answer


def text(body, *fields):
    head = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


@claim
def the_second_get_is_the_kernels_with_the_back_end_stopped():
    with device() as dev, cluster(1, KERNEL) as lardd:
        targets = [answer_with(size, FRESH, "Content-Type: image/png", "X-Other: kept") for size in (1, 3000, 900_000)]
        for target in targets:
            equal("the first is lardd's", asks_lardd(lardd, target)[0], True)
        equal("stored", lardd.counter("LardKernelStored"), 3)
        equal("status", lardd.control("status")["cache"]["kernel"], "on")
        lardd.backends[0].stop()
        until(lambda: lardd.control("status")["nodes"] == 0 or "down" in
              [n["state"] for n in lardd.control("nodes")["nodes"]], what="the node is down")
        for target, size in zip(targets, (1, 3000, 900_000)):
            for _ in range(2):
                reached, (status, fields, body) = asks_lardd(lardd, target)
                equal("answer", (reached, status, body == content(size)), (False, 200, True))
                equal("fields", (fields["content-type"], fields["x-other"]), ("image/png", "kept"))
        key = dev.query(site(lardd), targets[0], "h")
        equal("automatic", (key["automatic"], key["hits"], 0 < key["left_ms"] <= 600_000), (True, 2, True))
        dev.ban(site(lardd), "lardd", tag=True)
        equal("nothing without its tag", dev.info()["objects"], 0)


@claim
def without_the_directive_the_kernel_gets_nothing():
    with device() as dev, cluster(1, KERNEL.replace("on", "off")) as lardd:
        target = answer_with(100, FRESH)
        for _ in range(2):
            equal("reached", asks_lardd(lardd, target)[0], True)
        equal("sites", sites(dev), [])
        equal("status", lardd.control("status")["cache"]["kernel"], "off")


@claim
def only_an_answer_for_all_goes_there():
    cases = [((FRESH, "Set-Cookie: a=b"), ""), (("Cache-Control: private, max-age=60",), ""), ((FRESH, "Vary: *"), ""),
             ((FRESH, "Vary: Accept-Encoding"), ""), ((FRESH, "Vary: Cookie"), ""), ((FRESH,), "Cookie: a=b\r\n"),
             ((FRESH,), "Authorization: Basic x\r\n"), (("Cache-Control: no-store",), ""), (("X: y",), ""),
             ((FRESH, "Content-Encoding: gzip"), "Accept-Encoding: gzip\r\n"), ((FRESH, "Age: 600"), "")]
    with device() as dev, cluster(1, KERNEL) as lardd:
        for fields, request in cases:
            target = answer_with(100, *fields)
            equal("reached", asks_lardd(lardd, target, request)[0], True)
            equal(f"objects after {fields} {request!r}", dev.info()["objects"], 0)
        # What says that it is for all is, whoever has asked. Who shows a cookie is lardd's.
        target = answer_with(100, FRESH + ", public")
        asks_lardd(lardd, target, "Cookie: a=b\r\n")
        equal("reached", [asks_lardd(lardd, target)[0], asks_lardd(lardd, target, "Cookie: a=c\r\n")[0]], [False, True])
        equal("of its own cache", lardd.counter("LardCacheHits"), 1)
        # Another authority, and odd spellings, make no object, nor does what is no path for the kernel.
        other = answer_with(101, FRESH)
        for host in ("h:81", "H", "h."):
            asks_lardd(lardd, other, host=host)
        asks_lardd(lardd, lib.answer_with(102, FRESH, "X: y"))
        equal("objects", dev.info()["objects"], 1)
        equal("told once", lardd.log().count("the kernel did not take it"), 1)


@claim
def nobody_ever_gets_what_is_anothers():
    """Hosts, cookies, languages and encodings at random, while everything is put, deleted and banned."""
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print(f"# SEED={seed}")
    kinds = {"/all": (FRESH,), "/short": ("Cache-Control: max-age=1",), "/cookie": (FRESH, "Vary: Cookie"),
             "/lang": (FRESH, "Vary: Accept-Language"), "/enc": (FRESH, "Vary: Accept-Encoding"),
             "/set": (FRESH, "Set-Cookie: s=1"), "/mine": ("Cache-Control: private, max-age=600",),
             "/public": (FRESH + ", public",), "/none": ("X: y",)}

    def value(head, name):
        found = re.search(rb"\r\n" + name + rb": ([^\r]*)", head)
        return found.group(1).decode() if found else "-"

    def says(path, host, cookie, language, encoding):
        kind = path.rstrip("0123456789")
        parts = [path, host]
        if kind in ("/cookie", "/set", "/mine", "/none"):
            parts.append(cookie)
        # An answer to whom shows a cookie is his, unless it is public.
        if kind in ("/all", "/short"):
            parts.append(cookie)
        if kind == "/lang":
            parts.append(language)
        if kind == "/enc":
            parts.append(encoding)
        return " ".join(parts)

    def script(_peer, head, _body):
        path = head.split(b" ")[1].decode()
        body = says(path, value(head, b"Host"), value(head, b"Cookie"), value(head, b"Accept-Language"),
                    value(head, b"Accept-Encoding"))
        return text(body, *kinds[path.rstrip("0123456789")]), True
    with device() as dev, behind(script, KERNEL) as (lardd, origin):
        stop, faults, answered = threading.Event(), [], [0] * 4

        def client(number):
            rng = random.Random(seed + number)
            try:
                while not stop.is_set():
                    with lardd.connect() as s, s.makefile("rb") as stream:
                        for _ in range(rng.randrange(1, 5)):
                            path = rng.choice(list(kinds)) + str(rng.randrange(2))
                            host = rng.choice(["a", "b"])
                            cookie, language = rng.choice(["-", "-", "c1", "c2"]), rng.choice(["-", "de", "fr"])
                            encoding = rng.choice(["-", "gzip", "br"])
                            fields = "".join(f"{name}: {v}\r\n" for name, v in (
                                ("Cookie", cookie), ("Accept-Language", language), ("Accept-Encoding", encoding))
                                if v != "-")
                            s.sendall(GET.format(path, host, fields).encode())
                            got = read_answer(stream)[2].decode()
                            good = {says(path, host, cookie, language, encoding)}
                            if path.rstrip("01") in ("/all", "/short"):     # his own, or one that was nobody's
                                good.add(says(path, host, "-", language, encoding))
                            if got not in good:
                                faults.append((path, host, fields, got))
                            answered[number] += 1
            except Exception as fault:          # pylint: disable=broad-except
                faults.append(repr(fault))
        clients = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in clients:
            thread.start()
        rng = random.Random(seed)
        end = time.monotonic() + kit.rounds(10, 20)
        while time.monotonic() < end and not faults:
            with contextlib.suppress(FileNotFoundError):
                dev.delete(site(lardd), rng.choice(list(kinds)) + str(rng.randrange(2)), rng.choice("ab"))
            if rng.random() < 0.1:
                dev.ban(site(lardd), "/" + rng.choice("aslemp"))
            time.sleep(0.02)
        stop.set()
        for thread in clients:
            thread.join()
        asked = lardd.counter("LardRequests")
        print(f"# {answered} answers, {asked} by lardd, {len(origin.requests)} by the back-end")
        equal("wrong answers", faults[:3], [])
        if asked >= sum(answered) or len(origin.requests) >= asked:
            raise AssertionError("one of the caches has answered nothing")


@claim
def what_is_left_of_its_freshness_is_its_lifetime():
    with device() as dev, cluster(1, KERNEL) as lardd:
        target = answer_with(100, "Cache-Control: max-age=100, s-maxage=50", "Age: 20")
        asks_lardd(lardd, target)
        left = dev.query(site(lardd), target, "h")["left_ms"]
        equal(f"left {left}", 15_000 < left <= 30_000, True)
        for seconds in (2, 8, 32):
            short = answer_with(100, f"Cache-Control: max-age={seconds}")
            begin = time.monotonic()
            asks_lardd(lardd, short)
            young = asks_lardd(lardd, short)[0]
            if time.monotonic() - begin < seconds:
                break
        equal("reached while young", young, False)
        time.sleep(seconds + 0.1)
        seen = len(lardd.backends[0].seen)
        equal("reached when old", asks_lardd(lardd, short)[0], True)
        equal("and fetched anew", len(lardd.backends[0].seen), seen + 1)


@claim
def a_change_through_lardd_takes_it_out_of_the_kernel():
    with device() as dev, cluster(1, KERNEL) as lardd:
        target = answer_with(100, FRESH)
        asks_lardd(lardd, target)
        equal("objects", dev.info()["objects"], 1)
        lardd.ask(f"DELETE {target} HTTP/1.0\r\nHost: H\r\n\r\n".encode())
        equal("objects", dev.info()["objects"], 0)
        equal("the next is lardd's", asks_lardd(lardd, target)[0], True)
        equal("and fetched", len(lardd.backends[0].seen), 3)


@claim
def a_deletion_beats_a_fill_under_way():
    asked, go = threading.Event(), threading.Event()

    def script(_peer, head, _body):
        old = not go.is_set() and b"/page" in head
        if old:
            asked.set()
            go.wait(60)
        return text("old" if old else "new", FRESH), True

    def flotilla(*words):
        subprocess.run(["flotilla", "cache", *words], check=True, capture_output=True)

    def told(lardd):
        """What the kernel has said to lardd so far, which is after the client has its answer: refused, stored."""
        return [lardd.counter(f"LardKernel{name}") for name in ("Stale", "Stored")]

    with device() as dev, behind(script, KERNEL) as (lardd, _):
        for say in (lambda: dev.ban(site(lardd), "/pa"), lambda: dev.flush(site(lardd)),
                    lambda: flotilla("ban", "--tag", "lardd"),
                    lambda: dev.put(site(lardd), "/page", b"put", "h"),
                    lambda: delete(dev, lardd)):
            asked.clear()
            go.clear()
            refused, stored = told(lardd)
            expected = [refused + 1, stored]
            with lardd.connect() as s, s.makefile("rb") as stream:
                s.sendall(GET.format("/page", "h", "").encode())
                equal("asked", asked.wait(60), True)
                say()
                go.set()
                equal("answer", read_answer(stream)[2], b"old")
            wait_for("it is refused", lambda e=expected: told(lardd) == e)
            put = dev.info()["objects"] == 1
            equal("the next", lardd.get("/page")[2], b"put" if put else b"new")
            if not put:
                wait_for("that is kept", lambda s=stored + 1: told(lardd)[1] == s)
            dev.flush(site(lardd))
        equal("refused", told(lardd), [5, 4])


def delete(dev, lardd):
    with contextlib.suppress(FileNotFoundError):
        dev.delete(site(lardd), "/page", "h")


@claim
def what_is_deleted_or_banned_is_not_lardds_either():
    """Its own copy goes with the kernel's."""
    with device() as dev, cluster(1, KERNEL) as lardd:
        target = answer_with(100, FRESH)
        cookie = "Cookie: a=b\r\n"
        asks_lardd(lardd, target)
        asks_lardd(lardd, target, cookie)
        equal("a hit of its own", (lardd.counter("LardCacheHits"), len(lardd.backends[0].seen)), (1, 1))
        for number, say in enumerate((lambda: dev.delete(site(lardd), target, "h"), lambda: dev.ban(site(lardd), "/w"),
                                      lambda: dev.flush()), 2):
            say()
            asks_lardd(lardd, target, cookie)
            equal("fetched", len(lardd.backends[0].seen), 2 * number - 2)
            asks_lardd(lardd, target)
            equal("fetched for all", len(lardd.backends[0].seen), 2 * number - 1)
        # What a program puts in its place is what holds.
        dev.put(site(lardd), target, b"put", "h")
        asks_lardd(lardd, target, cookie)
        equal("fetched", len(lardd.backends[0].seen), 8)
        equal("and kept out", lardd.get(target)[2], b"put")


@claim
def what_has_expired_in_the_kernel_is_served_stale_unless_it_was_said_to_go():
    state = {"body": "one", "delay": threading.Event()}

    def script(_peer, _head, _body):
        body = state["body"]
        state["delay"].wait(60)
        return text(body, "Cache-Control: max-age=2, stale-while-revalidate=600", 'ETag: "%s"' % body), True

    with device() as dev, behind(script, KERNEL) as (lardd, origin):
        def expire():
            lardd.get("/page")
            wait_for("it has expired", lambda: dev.info()["objects"] == 0)
            state["body"] = {"one": "two", "two": "one"}[state["body"]]
        state["delay"].set()
        expire()
        state["delay"].clear()
        for _ in range(3):
            equal("while lardd asks", lardd.get("/page")[2], b"one")
        state["delay"].set()
        wait_for("the new one is the kernel's", lambda: dev.info()["objects"] == 1)
        equal("which answers", asks_lardd(lardd, "/page")[1][2], b"two")
        equal("asked", len(origin.requests), 2)
        for say in (lambda: dev.ban(site(lardd), "/pa"), lambda: dev.flush(site(lardd)), lambda: delete(dev, lardd),
                    lambda: dev.ban(site(lardd), "lardd", tag=True)):
            dev.flush(site(lardd))
            expire()
            say()
            equal("nothing stale", lardd.get("/page")[2], state["body"].encode())


@claim
def a_kernel_without_room_costs_nothing_else():
    with device() as dev, cluster(1, KERNEL) as lardd:
        dev.info(budget=10_000)
        for number in range(3):
            target = answer_with(100_000, FRESH, f"X: {number}")
            for _ in range(2):
                equal("answer", asks_lardd(lardd, target)[1][2], content(100_000))
        equal("failed", lardd.counter("LardKernelFailed"), 3)
        equal("lines", lardd.log().count("the kernel did not take it"), 1)
        equal("hits of lardd's", lardd.counter("LardCacheHits"), 3)


@claim
def its_site_goes_with_it_and_another_ones_stays():
    with device() as dev:
        with cluster(1, KERNEL) as lardd:
            target = answer_with(100, FRESH)
            asks_lardd(lardd, target)
            equal("sites", len(sites(dev)), 1)
            lardd.configure(KERNEL.replace("cache-kernel on", "cache-kernel off"))
            lardd.reload()
            until(lambda: not sites(dev), what="it is taken away")
            seen = len(lardd.backends[0].seen)
            equal("reached", asks_lardd(lardd, target)[0], True)
            lardd.configure(KERNEL)
            lardd.reload()
            until(lambda: sites(dev), what="it is there again")
            target = answer_with(101, FRESH)
            asks_lardd(lardd, target)
            equal("reached", asks_lardd(lardd, target)[0], False)
            # A successor has it, and nothing is lost on the way.
            old = lardd.take_over()
            old.wait()
            equal("sites", len(sites(dev)), 1)
            equal("reached", asks_lardd(lardd, target)[0], False)
            equal("fetched", len(lardd.backends[0].seen) > seen, True)
        equal("sites left", sites(dev), [])
        # One that was there stays, without what was filled.
        with cluster(1, KERNEL.replace("on", "off")) as lardd:
            dev.site_add(site(lardd))
            lardd.configure(KERNEL)
            lardd.reload()
            until(lambda: lardd.control("status")["cache"]["kernel"] == "on", what="the kernel's cache")
            dev.put(site(lardd), "/other", b"put", "h")
            asks_lardd(lardd, target)
            equal("objects", dev.info()["objects"], 2)
        equal("site and object left", (len(sites(dev)), dev.info()["objects"]), (1, 1))
        dev.site_del(site(lardd))


@claim
def a_kept_connection_of_the_kernels_is_not_told_that_it_is_late():
    with device(), cluster(1, KERNEL + "header-timeout 1s\nidle-timeout 4s\n") as lardd:
        target = answer_with(100, FRESH)
        asks_lardd(lardd, target)
        with lardd.connect() as s, s.makefile("rb") as stream:
            for pause in (1.5, 1.5, 0):
                s.sendall(GET.format(target, "h", "").encode())
                equal("answer", read_answer(stream)[2], content(100))
                time.sleep(pause)
            begin = time.monotonic()
            equal("nothing but the end", stream.read(), b"")
            equal("not at once", time.monotonic() - begin > 2, True)
        equal("late", lardd.counter("LardTimedOut"), 0)
        with lardd.connect() as s, s.makefile("rb") as stream:
            s.sendall(b"GET /x HT")
            equal("who begins must end", read_answer(stream)[0], 408)


@claim
def each_setting_of_the_classes_fills_its_own():
    pages = {"/a.css": ("static", ('ETag: "x"', "Content-Type: text/css")),
             "/a.png": ("image", ("Content-Type: image/png",)),
             "/a.php": ("dynamic", ("Content-Type: text/html",)), "/a?x": ("dynamic", ('ETag: "x"',))}
    fields = [()]

    def script(_peer, head, _body):
        return text("x", *pages[head.split(b" ")[1].decode()][1], *fields[0]), True
    with device() as dev:
        for setting in itertools.product((False, True), repeat=3):
            on = dict(zip(("static", "image", "dynamic"), setting))
            lines = "".join(f"cache-class {name} {'on 1h' if value else 'off'}\n" for name, value in on.items())
            with behind(script, KERNEL + lines) as (lardd, _):
                # The answer itself overrules the class, both ways.
                for fields[0], kept in (((), None), (("Cache-Control: no-store",), False), ((FRESH,), True)):
                    for path, (name, _) in pages.items():
                        asks_lardd(lardd, path)
                        equal(f"{path} {on} {fields}", asks_lardd(lardd, path)[0],
                              not (on[name] if kept is None else kept))
                    dev.flush(site(lardd))


@claim
def age_and_tags_go_along():
    with device() as dev, cluster(1, KERNEL) as lardd:
        first, second = (answer_with(100, FRESH, "Age: 7", f"xkey: {tags}") for tags in ("a b", "b  c"))
        for target in (first, second):
            asks_lardd(lardd, target)
            reached, (_, fields, _) = asks_lardd(lardd, target)
            equal("age", (reached, 7 <= int(fields["age"]) < 60), (False, True))
        equal("of c", dev.ban(site(lardd), "c", tag=True), 1)
        equal("reached", [asks_lardd(lardd, target)[0] for target in (first, second)], [False, True])
        subprocess.run(["flotilla", "cache", "ban", "--tag", "b"], check=True, capture_output=True)
        equal("objects", dev.info()["objects"], 0)
        equal("fetched", len(lardd.backends[0].seen), 3)
        equal("reached", [asks_lardd(lardd, target)[0] for target in (first, second)], [True, True])
        equal("fetched", len(lardd.backends[0].seen), 5)
        # Told to lardd, it holds for the kernel, too.
        equal("cleared", lardd.control("clear", tag="a"), {"cleared": 1})
        equal("objects", dev.info()["objects"], 1)
        equal("cleared", lardd.control("clear", url="http://h" + second), {"cleared": 1})
        equal("objects", dev.info()["objects"], 0)


@claim
def many_who_miss_are_one_fetch_and_then_the_kernels():
    asked, go = [], threading.Event()

    def script(_peer, head, _body):
        asked.append(head)
        go.wait(60)
        return text("one", FRESH), True
    with device(), behind(script, KERNEL + "cache-wait 60s") as (lardd, _):
        answers = []
        clients = [threading.Thread(target=lambda: answers.append(lardd.get("/x")[2])) for _ in range(10)]
        for client in clients:
            client.start()
        until(lambda: lardd.counter("LardCacheWaited") == 9, what="9 wait")
        go.set()
        for client in clients:
            client.join()
        equal("answers", answers, [b"one"] * 10)
        equal("fetches", len(asked), 1)
        equal("reached", asks_lardd(lardd, "/x")[0], False)


def the_module_unloads():
    until(lambda: afpa.unload("afpa"), what="its users' end")


if __name__ == "__main__":
    afpa.load("flotilla", "afpa")
    sys.exit(kit.run(kit.CLAIMS, last=[("the_module_unloads", the_module_unloads)]))
