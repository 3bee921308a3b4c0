#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# cpus: 2
"""Objects: put, replaced, deleted, expired, thrown out, and whose they are."""
import collections
import contextlib
import errno
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (CLOCK, LRU, THERE, TOP, Client, Device, Server, Thread, body, claim,  # noqa: E402
                  counted, equal, fails, main, same, site, wait_for)
import kit                                      # noqa: E402
import nets                                     # noqa: E402
import traced                                   # noqa: E402

NOBODY = 65534


@claim
def an_object_that_is_replaced_under_load_is_never_torn_or_stale():
    """READERS=64 UPDATES=1000: so many connections that ask, so many puts in a second."""
    readers, rate = int(os.environ.get("READERS", 4)), int(os.environ.get("UPDATES", 0))
    seconds, size = int(os.environ.get("SECONDS", kit.rounds(8, 20))), int(os.environ.get("BYTES", 100000))
    with site() as (device, server):
        device.put(server.site, "/a", b"%08d" % 0 * 12500)
        ran = subprocess.run([os.path.join(TOP, "build/tests/afpa_updates"), "%s:%d" % server.site, *map(
            str, (readers, rate, seconds, size))], stdout=subprocess.PIPE, check=True)
        said = json.loads(ran.stdout)
        print(f"# {readers} readers, {rate or 'all'} puts a second of {size} bytes, {seconds} s: {said}")
        if min(said["puts"], said["reads"]) < 100 or said["least"] < 20 or said["puts"] < rate * seconds * 0.95:
            raise AssertionError("too few")
        equal("what the server read", server.read, [])


@claim
def del_update_ttl_and_query_do_what_they_say():
    with site() as (device, server), Client(server.site) as client:
        first = device.put(server.site, "/a", b"one")
        second = device.put(server.site, "/a", b"second", ttl_ms=500000)
        equal("version", second > first, True)
        equal("body", client.get("/a"), b"second")
        says = device.query(server.site, "/a")
        equal("query", (says["version"], says["body_len"], says["hits"]), (second, 6, 1))
        equal("left", 400000 < says["left_ms"] <= 500000, True)
        device.ttl(server.site, "/a", 0)
        equal("unlimited", device.query(server.site, "/a")["left_ms"], 0)
        device.ttl(server.site, "/a", 300)
        wait_for("its end", lambda: device.info()["objects"] == 0)
        fails(errno.ENOENT, device.query, server.site, "/a")
        fails(errno.ENOENT, device.put, server.site, "/a", b"late", update=True)
        device.put(server.site, "/a", b"three")
        device.put(server.site, "/a", b"four", update=True)
        equal("body", client.get("/a"), b"four")
        device.delete(server.site, "/a")
        fails(errno.ENOENT, device.delete, server.site, "/a")
        equal("deleted", client.get("/a"), b"server /a")
        equal("used", device.info()["used"], 0)


@claim
def an_expired_object_is_not_answered_with():
    with site() as (device, server):
        for seconds in (1.5, 6, 24):
            begin = time.monotonic()
            device.put(server.site, "/a", b"short", ttl_ms=int(1000 * seconds))
            with Client(server.site) as client:
                young = client.get("/a")
                # Where that took so long it says nothing, and it lives longer the next time.
                if time.monotonic() - begin < seconds:
                    equal("young", young, b"short")
                    time.sleep(seconds + 0.1)
                    equal("old", client.get("/a"), b"server /a")
                    return
        raise AssertionError("too slow")


@claim
def the_budget_holds_and_what_is_asked_for_stays():
    with site() as (device, server), Client(server.site) as client, contextlib.ExitStack() as stack:
        before = device.info()["budget"]
        device.info(budget=400000)
        stack.callback(lambda: device.info(budget=before, max_object=16 << 20))
        device.put(server.site, "/hot", body(20000))
        for number in range(200):
            device.put(server.site, f"/{number}", body(5000))
            client.get("/hot")
            used = device.info()["used"]
            if used > 400000:
                raise AssertionError(f"{used} bytes are used")
        same("the one in use", client.get("/hot"), body(20000))
        equal("an old one", client.get("/3"), b"server /3")
        fails(errno.ENOSPC, device.put, server.site, "/large", body(500000))
        device.info(max_object=1000)
        fails(errno.EFBIG, device.put, server.site, "/hot", body(1001))
        device.info(budget=0)
        equal("nothing is left", device.info()["objects"], 0)


def who_goes(device, where, client, policy, seed, rounds):
    """
    Objects are asked for, put, looked at and deleted at random, with room for eight. How often one that is not the
    least recently used makes room for another.
    """
    draw, model, wrong, evicted = random.Random(seed), collections.OrderedDict(), 0, 0
    device.flush(where)
    device.put(where, "/00", b"x")
    device.info(budget=8 * device.info()["used"])
    device.policy(policy)
    device.flush(where)
    for _ in range(rounds):
        path = "/%02d" % min(int(draw.expovariate(0.15)), 40)
        if path in model and draw.random() < 0.9:
            equal(path, client.get(path), b"x")
            model.move_to_end(path)
            continue
        if draw.random() < 0.05:
            model.pop(path, None)
            with contextlib.suppress(FileNotFoundError):
                device.delete(where, path)
            continue
        device.put(where, path, b"x")
        model[path] = None
        model.move_to_end(path)
        # Looking is no use.
        if model and draw.random() < 0.2:
            device.query(where, path if path in model else next(iter(model)))
            device.explain(where, next(iter(model)))
        there = {name for _, name in device.names()}
        evicted += len(model) > 8
        if len(model) > 8 and next(iter(model)) in there:
            wrong += 1
            model = collections.OrderedDict((name, None) for name in model if name in there)
        elif len(model) > 8:
            model.popitem(last=False)
        equal("there", there, set(model))
    print(f"# {evicted} made room, {wrong} of them not the least recently used")
    return evicted, wrong


@claim
def with_policy_lru_who_was_not_used_for_longest_makes_room():
    with site() as (device, server), Client(server.site) as client, contextlib.ExitStack() as stack:
        before = device.info()["budget"]
        equal("by default", device.policy(), CLOCK)
        stack.callback(device.policy, CLOCK)
        stack.callback(lambda: device.info(budget=before))
        evicted, wrong = who_goes(device, server.site, client, LRU, 1, kit.rounds(3000, 1000))
        if evicted < 100 or wrong:
            raise AssertionError(f"{wrong} of {evicted} were not")
        # The same would fail of CLOCK, which it is switched to and back amid its work.
        evicted, wrong = who_goes(device, server.site, client, CLOCK, 2, kit.rounds(1500, 1000))
        if not wrong:
            raise AssertionError("CLOCK is LRU?")
        equal("what the server read", server.read, [])
        equal("now", device.policy(LRU), LRU)
        device.put(server.site, "/new", b"x")
        device.info(budget=0)
        equal("objects", device.info()["objects"], 0)
        fails(errno.EINVAL, device.policy, 2)
        equal("still", device.policy(), LRU)


@claim
def a_policy_that_changes_under_load_loses_nothing():
    with site() as (device, server), contextlib.ExitStack() as stack:
        before, stop = device.info()["budget"], threading.Event()
        stack.callback(device.policy, CLOCK)
        stack.callback(lambda: device.info(budget=before))
        device.info(budget=400000)

        def change():
            with Device() as own:
                while not stop.is_set():
                    own.policy(LRU)
                    own.policy(CLOCK)

        def put(name):
            with Device() as own:
                number = 0
                while not stop.is_set():
                    own.put(server.site, f"/{name}/{number % 300}", b"x" * 1000)
                    number += 1
                    if not number % 50:
                        own.flush()
        threads = [Thread(change), Thread(change), Thread(put, "a"), Thread(put, "b")]
        end = time.monotonic() + kit.rounds(3, 8)
        while time.monotonic() < end:
            device.put(server.site, "/hot", b"hot")
            with Client(server.site) as client:
                for _ in range(10):
                    if client.get("/hot") not in (b"hot", b"server /hot"):
                        raise AssertionError("another page")
        stop.set()
        for thread in threads:
            thread.join()
        if device.info()["used"] > 400000:
            raise AssertionError(f"{device.info()['used']} bytes are used")
        device.policy(LRU)
        device.info(budget=0)
        equal("nothing is left", (device.info()["objects"], device.info()["used"]), (0, 0))


@claim
def when_memory_is_short_what_can_be_had_again_goes_first():
    with site() as (device, server), Client(server.site) as client:
        for number in range(20):
            device.put(server.site, f"/own/{number}", b"own")
        for number in range(300):
            device.put(server.site, f"/again/{number}", b"again", automatic=True)
            # However much they are asked for, and more of them than one turn of the clock's hand looks at.
            client.get(f"/again/{number}")
        equal("which are", [device.query(server.site, f"/{kind}/1")["automatic"] for kind in ("own", "again")],
              [False, True])
        with traced.events("afpa/afpa_gone") as seen, counted(Shrunk=lambda n: n > 300, ShrunkAutomatic=300):
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
                file.write("2")
            went = ["automatic=1" in text for _, text, _ in seen() if "why=shrunk" in text]
        equal("who went, in this order", went, [True] * 300 + [False] * (len(went) - 300))
        equal("the server answers", client.get("/again/1"), b"server /again/1")


@claim
def all_objects_are_listed_and_flushed():
    with site() as (device, server), contextlib.closing(Server()) as other:
        device.site_add(other.site)
        for number in range(300):
            device.put(server.site, f"/{number}", b"x", host=f"h{number % 7}")
        device.put(other.site, "/other", b"y")
        equal("names", device.names(), [(f"h{n % 7}", f"/{n}") for n in range(300)] + [("*", "/other")])
        equal("flushed", device.flush(server.site), 300)
        equal("names", device.names(), [("*", "/other")])
        equal("with the site", device.site_del(other.site), 1)
        equal("used", device.info()["used"], 0)


@claim
def a_ban_takes_what_it_says_and_nothing_else():
    with site() as (device, server), site("127.0.0.2", device=device) as (_, other), Client(server.site) as client:
        for host in ("h", "i", "*"):
            for path in ("/", "/new", "/news", "/news/1", "/news/2?x", "/New/1"):
                device.put(server.site, path, b"x", host=host, tags=f"all {path[1:5]}x {host}")
        device.put(other.site, "/news/1", b"x", host="h", tags="all")

        def goes(names, *args, **how):
            before = collections.Counter(device.names())
            equal(f"{args}", device.ban(*args, **how), len(names))
            equal(f"{args}", list((before - collections.Counter(device.names())).elements()), names)
        goes([("h", "/news"), ("h", "/news/1"), ("h", "/news/2?x")], server.site, "/news", host="H")
        goes([("*", "/news/1"), ("*", "/news/2?x")], server.site, "/news/", host="*")
        goes([("i", "/news/1"), ("i", "/news/2?x")], server.site, "/news/")
        goes([], server.site, "new", tag=True)
        goes([], server.site, "al", tag=True)
        goes([("h", "/new"), ("i", "/new"), ("*", "/new")], server.site, "newx", tag=True)
        equal("still there", client.get("/New/1"), b"x")
        goes([("h", "/"), ("h", "/New/1")], server.site, "h", tag=True)
        equal("any host's", client.get("/New/1"), b"x")
        with counted(Banned=lambda n: n == 7):
            equal("of all sites", device.ban(None, "all", tag=True), 7)
        equal("left", device.names(), [])
        equal("gone", client.get("/New/1"), b"server /New/1")


@claim
def what_became_of_an_object_is_remembered():
    with site() as (device, server), Client(server.site) as client:
        def is_said(last, state=0, path="/a", host="*", **more):
            said = device.explain(server.site, path, host=host)
            should = dict(last=last, state=state, **more)
            equal(path, {name: said[name] for name in should}, should)
            return said
        is_said("none", error=0, last_ms=0, version=0, hits=0)
        version = device.put(server.site, "/a", b"a")
        client.get("/a")
        is_said("none", THERE, version=version, hits=1)
        device.delete(server.site, "/a")
        begin = time.monotonic()
        is_said("deleted", version=version, hits=1)
        wait_for("half a second", lambda: time.monotonic() > begin + 0.5)
        if device.explain(server.site, "/a")["last_ms"] < 450:
            raise AssertionError("it has just been deleted")
        # Nothing there to replace is not worth a word, and what is put is there.
        fails(errno.ENOENT, device.put, server.site, "/a", b"a", update=True)
        is_said("deleted")
        device.put(server.site, "/a", b"a", tags="t")
        is_said("none", THERE)
        device.put(server.site, "/a", b"a", tags="t")
        is_said("none", THERE)
        device.ban(None, "t", tag=True)
        is_said("banned")
        device.put(server.site, "/a", b"a", host="h")
        is_said("none", THERE, host="H")
        is_said("banned")
        device.flush(server.site)
        is_said("flushed", host="h")
        device.put(server.site, "/a", b"a", ttl_ms=1)
        wait_for("its end", lambda: not device.explain(server.site, "/a")["state"])
        is_said("expired", error=0)
        wait_for("its being out", lambda: not device.info()["objects"])
        is_said("expired", error=0)
        fails(errno.ESTALE, device.put, server.site, "/a", b"a", since=1)
        is_said("refused", error=errno.ESTALE, version=0)
        version = device.put(server.site, "/a", b"a")
        before = device.info()
        device.info(max_object=1000)
        fails(errno.EFBIG, device.put, server.site, "/a", body(1001))
        is_said("refused", THERE, error=errno.EFBIG, version=version)
        device.info(max_object=before["max_object"], budget=30000)
        fails(errno.ENOSPC, device.put, server.site, "/b", body(40000))
        is_said("refused", path="/b", error=errno.ENOSPC)
        device.info(budget=0)
        is_said("evicted")
        device.info(budget=before["budget"])
        fails(errno.ENOENT, device.explain, ("127.0.0.9", 9), "/a")
        for path, host in (("a", "h"), ("/../a", "h"), ("/a", "h:80"), ("/a", ""), ("/" + "a" * 2048, "h")):
            fails(errno.EINVAL, device.explain, server.site, path, host=host)


@claim
def more_objects_than_it_has_room_for_cost_no_memory():
    with site() as (device, server):
        rounds, known = kit.rounds(6000, 5000), set()
        for number in range(rounds):
            device.put(server.site, f"/{number}", b"")
        device.flush(server.site)
        for number in range(rounds):
            said = device.explain(server.site, f"/{number}")
            known.add(said["last"])
            if said["state"] or said["last"] not in ("none", "flushed"):
                raise AssertionError(f"/{number}: {said}")
        equal("known and forgotten", known, {"none", "flushed"})


@claim
def what_was_said_of_a_page_beats_a_fill_that_was_under_way():
    with site() as (device, server), Client(server.site) as client:
        fails(errno.ESTALE, device.put, server.site, "/a", b"forged", since=1)

        def fill(since, path="/a", data=b"old"):
            return device.put(server.site, path, data, automatic=True, since=since, tags="t")
        for what in (lambda: device.put(server.site, "/a", b"new"), lambda: device.delete(server.site, "/a"),
                     lambda: device.ban(server.site, "/a"), lambda: device.ban(None, "t", tag=True), device.flush):
            fill(device.ticket())
            since = device.ticket()
            what()
            with counted(Stale=1, Puts=0):
                fails(errno.ESTALE, fill, since)
        since = device.ticket()
        fails(errno.ENOENT, device.delete, server.site, "/a")
        fails(errno.ESTALE, fill, since)
        fails(errno.ESTALE, fill, 1 << 60)
        # What is said of others is no matter, and a ticket is good for several.
        since = device.ticket()
        device.put(server.site, "/b", b"b")
        fails(errno.ENOENT, device.delete, server.site, "/c")
        fill(since)
        fill(since, "/d")
        equal("body", client.get("/a"), b"old")


@claim
def no_ticket_outlives_its_site_or_what_it_counted():
    with site() as (device, server):
        since = device.ticket()
        device.site_del(server.site)
        # It is told to nobody: there is no such site.
        fails(errno.ENOENT, device.delete, server.site, "/a")
        equal("listeners, refused, errno", device.site_add(server.site), (1, 0, 0))
        fails(errno.ESTALE, device.put, server.site, "/a", b"old", since=since)
        device.put(server.site, "/a", b"new", since=device.ticket())
    with contextlib.ExitStack() as stack:
        nets.add_namespace("afpanew")
        stack.callback(nets.delete_namespace, "afpanew")
        nets.run("ip", "-n", "afpanew", "link", "set", "lo", "up")
        stack.enter_context(nets.inside("afpanew"))
        device, server = stack.enter_context(site(port=8080))
        since = 50              # of a module, or a namespace of that name, before
        for _ in range(100):
            device.put(server.site, "/b", b"b")
        device.ticket()
        fails(errno.ESTALE, device.put, server.site, "/a", b"old", since=since)


@claim
def no_fill_brings_back_what_a_ban_has_taken():
    with site() as (device, server):
        page, stop, fills = [0], threading.Event(), [0, 0]

        def filler():
            with Device() as own:
                while not stop.is_set():
                    since, data = own.ticket(), b"%08d" % page[0]
                    time.sleep(0.002)
                    try:
                        own.put(server.site, "/a", data, automatic=True, since=since, tags="t")
                        fills[0] += 1
                    except OSError as err:
                        equal("errno", err.errno, errno.ESTALE)
                        fills[1] += 1
        fillers = [Thread(filler) for _ in range(3)]
        end, bans = time.monotonic() + kit.rounds(4, 15), 0
        with Client(server.site) as client:
            # On a machine that is slow until there is enough of each.
            while time.monotonic() < end or min(bans, *fills) < 10 and time.monotonic() < end + kit.PATIENCE:
                page[0] += 1
                if bans % 2:
                    device.ban(None, "t", tag=True)
                else:
                    device.ban(server.site, "/")
                bans += 1
                for _ in range(3):
                    data = client.get("/a")
                    if data == b"server /a":
                        client.close()
                        client = Client(server.site)
                    elif int(data) < page[0]:
                        raise AssertionError(f"page {int(data)} after {page[0]} had come and the old ones were banned")
                time.sleep(0.01)
        stop.set()
        for thread in fillers:
            thread.join()
        print(f"# {bans} bans, {fills[0]} fills, {fills[1]} of them refused")
        if min(bans, *fills) < 10:
            raise AssertionError("too few")


@claim
def a_site_never_answers_with_anothers_objects():
    with site() as (device, one), site("127.0.0.2", device=device) as (_, two), Client(one.site) as at_one, \
            Client(two.site) as at_two:
        device.put(one.site, "/a", b"of one")
        device.put(two.site, "/a", b"of two")
        device.put(one.site, "/b", b"of one")
        for _ in range(20):
            equal("one", at_one.get("/a"), b"of one")
            equal("two", at_two.get("/a"), b"of two")
        equal("not two's", at_two.get("/b"), b"server /b")


@claim
def a_namespace_never_answers_with_anothers_objects():
    sites = []
    with contextlib.ExitStack() as stack:
        for name in ("afpa1", "afpa2"):
            nets.add_namespace(name)
            stack.callback(nets.delete_namespace, name)
            nets.run("ip", "-n", name, "link", "set", "lo", "up")
            with nets.inside(name):
                sites.append(stack.enter_context(site(port=8080)) + (name,))
        sites[0][0].put(sites[0][1].site, "/a", b"in one")
        for device, server, name in sites:
            with nets.inside(name), Client(server.site) as client:
                equal(name, client.get("/a"), b"in one" if name == "afpa1" else b"server /a")
        equal("objects of two", sites[1][0].info()["objects"], 0)


@claim
def who_may_not_administer_the_network_may_not_put():
    with site() as (device, server):
        device.put(server.site, "/a", b"a")
        pid = os.fork()
        if not pid:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            for call in (lambda: device.put(server.site, "/b", b""), lambda: device.delete(server.site, "/a"),
                         lambda: device.site_add(server.site), lambda: device.site_del(server.site),
                         lambda: device.info(mode=0), device.flush, lambda: device.ttl(server.site, "/a", 1),
                         lambda: device.policy(LRU),
                         lambda: device.ban(server.site, "/"), lambda: device.ban(None, "t", tag=True), device.ticket):
                fails(errno.EPERM, call)
            equal("but look", device.query(server.site, "/a")["body_len"], 1)
            equal("or ask", device.policy(), CLOCK)
            equal("and ask", device.explain(server.site, "/a")["state"], THERE)
            fails(errno.EACCES, Device)
            os._exit(0)
        equal("status", os.waitpid(pid, 0)[1], 0)


@claim
def wrong_arguments_are_refused():
    with site() as (device, server):
        for call, number in ((lambda: device.put(server.site, "a", b""), errno.EINVAL),
                             (lambda: device.put(server.site, "/a/../b", b""), errno.EINVAL),
                             (lambda: device.put(server.site, "/a", b"", host=""), errno.EINVAL),
                             (lambda: device.put(server.site, "/a", b"", host="h:80"), errno.EINVAL),
                             (lambda: device.put(server.site, "/a", b"", kind="a\r\nb"), errno.EINVAL),
                             (lambda: device.put(server.site, "/" + "a" * 2048, b""), errno.EINVAL),
                             (lambda: device.put(("127.0.0.9", 9), "/a", b""), errno.ENOENT),
                             (lambda: device.site_del(("127.0.0.9", 9)), errno.ENOENT),
                             (lambda: device.site_add(("127.0.0.9", 0)), errno.EINVAL),
                             (lambda: device.put(server.site, "/a", b"", tags="a\tb"), errno.EINVAL),
                             (lambda: device.put(server.site, "/a", b"", tags="a" * 1025), errno.EINVAL),
                             (lambda: device.ban(server.site, ""), errno.EINVAL),
                             (lambda: device.ban(server.site, "a"), errno.EINVAL),
                             (lambda: device.ban(server.site, "/" + "a" * 2048), errno.EINVAL),
                             (lambda: device.ban(server.site, "/", host="h:80"), errno.EINVAL),
                             (lambda: device.ban(server.site, "a b", tag=True), errno.EINVAL),
                             (lambda: device.ban(server.site, "", tag=True), errno.EINVAL),
                             (lambda: device.ban(("127.0.0.9", 9), "/"), errno.ENOENT),
                             (lambda: device.info(stall_ms=1), errno.EINVAL),
                             (lambda: device.info(mode=7), errno.EINVAL)):
            fails(number, call)
        equal("objects", device.info()["objects"], 0)


@claim
def an_object_survives_what_replaces_it_until_it_is_acknowledged():
    with site() as (device, server), Client(server.site, rcvbuf=20000) as client:
        old = body(1000000, 1)
        device.put(server.site, "/a", old)
        with counted(Hits=1):
            client.ask("/a")
            wait_for("the answer", lambda: client.sock.recv(1, 2))
        device.put(server.site, "/a", b"new")
        device.flush()
        same("the old one", client.answer()[1], old)


@claim
def what_slow_clients_hold_is_bounded_by_the_budget():
    with site() as (device, server), contextlib.ExitStack() as stack:
        before = device.info()["budget"]
        stack.callback(lambda: device.info(budget=before))
        device.info(budget=2500000)
        held = 0
        with contextlib.ExitStack() as clients, contextlib.suppress(OSError):
            for held in range(10):
                device.put(server.site, "/a", body(1000000, held))
                client = clients.enter_context(Client(server.site, rcvbuf=4096))
                client.ask("/a")
                wait_for("the answer", lambda c=client: c.sock.recv(1, socket.MSG_PEEK))
            raise AssertionError(f"{held + 1} versions are in memory")
        if held < 2:
            raise AssertionError(f"only {held} were")

        def put():
            with contextlib.suppress(OSError):
                return device.put(server.site, "/a", b"new")
        wait_for("room again", put)
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"new")


main()
