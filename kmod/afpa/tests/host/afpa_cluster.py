#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""Doors that tell each other, on tables in place of devices: who knows what when somebody is answered."""
import contextlib
import http.client
import http.server
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
import door                                     # noqa: E402
from door import Door, port                     # noqa: E402
from kit import claim, equal, main, wait_for    # noqa: E402


@contextlib.contextmanager
def doors(count, *lines):
    """In step with each other."""
    numbers = [port() for _ in range(count)]
    urls = ["http://127.0.0.1:%d" % number for number in numbers]
    with contextlib.ExitStack() as stack:
        some = [stack.enter_context(Door(*lines, number=number, peers=[other for other in urls if other != url]))
                for number, url in zip(numbers, urls)]
        for d in some:
            d.in_step(*(other for other in some if other is not d))
        yield some


class Peer(http.server.ThreadingHTTPServer):
    """One that answers as the test says, and remembers what it was told."""

    daemon_threads = True

    def __init__(self, status=200, says=None):
        self.status, self.told, self.seen, self.says = status, [], [], says
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = "http://127.0.0.1:%d" % self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, self.headers["Authorization"]))
        status = self.server.status(said) if callable(self.server.status) else self.server.status
        if status == 200:
            self.server.told += said["changes"]
        answer = json.dumps(self.server.says or {"made": len(said["changes"])}).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_):
        pass


@claim
def changes_are_confirmed_by_all():
    with doors(3) as (a, b, c):
        said = {b.url: "confirmed", c.url: "confirmed"}
        for d in (a, b, c):
            for page in ("h/x", "h/n/1", "h/n/2", "h/t", "h/y"):
                d.put(page, Afpa_Peers="none", xkey="t%s" % page[-1])
        equal("delete", a.delete("h/x"), (200, {"deleted": 1, "peers": said}))
        equal("ban", a.ask("POST", "/v1/ban/h/n/")[:2], (200, {"deleted": 2, "peers": said}))
        equal("tag", a.ask("POST", "/v1/ban", xkey="tt")[:2], (200, {"deleted": 1, "peers": said}))
        equal("newer", a.put("h/y")[1]["peers"], said)
        equal("there is", [d.status()["objects"] for d in (a, b, c)], [1, 0, 0])
        b.put("h/z", Afpa_Peers="none")
        equal("flush", a.ask("POST", "/v1/flush")[1]["peers"], said)
        equal("there is", [d.status()["objects"] for d in (a, b, c)], [0, 0, 0])
        equal("told once each", [d.status()["counters"]["told"] for d in (a, b, c)], [0, 5, 5])
        equal("what can be had again", "peers" in a.put("h/y", Afpa_Automatic="yes")[1], False)


@claim
def who_does_not_wait_is_answered_at_once_and_others_know_soon():
    with doors(2) as (a, b):
        b.put("h/x", Afpa_Peers="none")
        b.freeze()
        start = time.monotonic()
        equal("delete", a.delete("h/x", Afpa_Wait="local"), (202, {"deleted": 0, "peers": {b.url: "pending"}}))
        equal("at once", time.monotonic() - start < 2, True)
        equal("state", a.peer(b)["state"] in ("catching up", "away"), True)
        b.process.send_signal(signal.SIGCONT)
        wait_for("the change", lambda: not b.has("h/x"))


@claim
def who_was_away_gets_what_it_missed_in_order_before_it_is_in_step():
    with Peer(500) as peer, Door("peer-timeout 1s", peers=[peer.url]) as d:
        d.put("h/a", Afpa_Peers="none")
        for number in range(300):
            equal("delete", d.delete("h/%d" % number)[0], 202)
        shown = d.peer(peer)
        equal("state", (shown["state"], shown["lacks"], shown["flush"]), ("refuses", 300, False))
        equal("it is remembered", len(os.listdir(d.state)), 1)
        batches = []

        def in_parts(said):
            batches.append(len(said["changes"]))
            equal("in step too early", d.peer(peer)["state"] == "in step", False) if sum(batches) < 300 else None
            return 200
        peer.status = in_parts
        d.in_step(peer)
        equal("what it was told", [change["text"] for change in peer.told], ["/%d" % number for number in range(300)])
        equal("at most", max(batches) <= 128, True)
        equal("it is forgotten", os.listdir(d.state), [])
        equal("token and place", set(peer.seen), {("/v1/peer", "Bearer " + door.PEER)})
        equal("delete", d.delete("h/x"), (200, {"deleted": 0, "peers": {peer.url: "confirmed"}}))


@claim
def who_missed_too_much_or_does_not_understand_is_told_to_flush():
    with Peer(500) as peer, Door("queue 10", peers=[peer.url]) as d:
        for number in range(30):
            d.delete("h/%d" % number)
        shown = d.peer(peer)
        equal("it lacks", (shown["flush"], shown["lacks"] <= 10), (True, True))
        peer.status = 200
        d.in_step(peer)
        equal("flush first", peer.told[0]["change"], "flush")
        equal("no more than that and what came later", len(peer.told) <= 11, True)
        del peer.told[:]
        peer.status = lambda said: 400 if any(c["change"] != "flush" for c in said["changes"]) else 200
        d.delete("h/x")
        d.in_step(peer)
        equal("told", [change["change"] for change in peer.told], ["flush"])


@claim
def a_new_process_remembers_who_lacked_something():
    for how, flushed in ((signal.SIGTERM, ["flush"]), (signal.SIGKILL, ["flush"])):
        with Peer(500) as peer, Door(peers=[peer.url]) as d:
            equal("delete", d.delete("h/x")[0], 202)
            d.stop(how)
            peer.status = 200
            d.start()
            d.in_step(peer)
            equal("told", [change["change"] for change in peer.told], flushed)
            d.stop(how)
            d.start()
            d.in_step(peer)
            equal("not again", len(peer.told), 1)
    with Peer(200) as peer, Door("state none", peers=[peer.url]) as d:
        d.in_step(peer)
        equal("without a memory", [change["change"] for change in peer.told], ["flush"])


@claim
def a_peer_that_is_silent_costs_its_time_once():
    with doors(2, "peer-timeout 1s") as (a, b):
        b.freeze()
        start = time.monotonic()
        equal("delete", a.delete("h/x")[0], 202)
        equal("bounded", time.monotonic() - start < 10, True)
        wait_for("away", lambda: a.peer(b)["state"] == "away")
        start = time.monotonic()
        for number in range(20):
            equal("delete", a.delete("h/%d" % number)[0], 202)
        equal("no more waiting", time.monotonic() - start < 5, True)
        b.process.send_signal(signal.SIGCONT)
        a.in_step(b)
        equal("delete", a.delete("h/x")[0], 200)


@claim
def whatever_else_answers_has_confirmed_nothing():
    """Something has got the port of a peer that is down, and has the same word for everybody."""
    for status, says in ((200, {"ok": True}), (200, {"made": 5}), (200, {"made": "1"}), (200, ["x" * 10000]), (409, {}),
                         (409, {"id": "0" * 32}), (204, {"made": 1})):
        with Peer(status, says) as peer, Door(peers=[peer.url]) as d:
            wait_for("it refuses or is away", lambda d=d, peer=peer: d.peer(peer)["state"] in ("refuses", "away"))
            equal((status, says), d.delete("h/x"), (202, {"deleted": 0, "peers": {peer.url: "pending"}}))
            peer.status, peer.says = 200, None
            d.in_step(peer)
            equal("told", [change["text"] for change in peer.told], ["/x"])


@claim
def a_peer_that_is_slow_gets_what_it_missed_in_smaller_parts():
    """All of it takes longer than an answer may: the same message again and again would never end."""
    sizes = []

    def slowly(said):
        sizes.append(len(said["changes"]))
        time.sleep(0.02 * sizes[-1])
        return 200
    with Peer(500) as peer, Door("peer-timeout 1s", peers=[peer.url]) as d:
        for number in range(200):
            d.delete("h/%d" % number)
        peer.status = slowly
        d.in_step(peer)
        equal("in parts", max(sizes[-5:]) < 128, True)
        equal("all of them", {change["text"] for change in peer.told}, {"/%d" % number for number in range(200)})


@claim
def ends_and_reloads_do_not_wait_for_peers():
    with doors(2, "peer-timeout 20s") as (a, b):
        b.freeze()
        answers = []
        askers = [threading.Thread(target=lambda: answers.append(a.delete("h/x")[0])) for _ in range(5)]
        for asker in askers:
            asker.start()
        wait_for("they wait", lambda: a.status()["counters"]["deleted"] == 5)
        a.process.send_signal(signal.SIGHUP)
        equal("others are answered", a.ask("GET", "/v1/ticket")[0], 200)
        b.process.send_signal(signal.SIGCONT)
        for asker in askers:
            asker.join()
        equal("answers", answers, [200] * 5)


@claim
def an_end_does_not_wait_for_a_peer_that_is_silent():
    with doors(2, "peer-timeout 60s") as (a, b):
        b.freeze()
        answers = []

        def ask():
            with contextlib.suppress(OSError, http.client.HTTPException):
                answers.append(a.delete("h/x")[0])
        askers = [threading.Thread(target=ask) for _ in range(5)]
        for asker in askers:
            asker.start()
        wait_for("they wait", lambda: a.status()["counters"]["deleted"] == 5)
        start = time.monotonic()
        equal("its end", a.stop(), 0)
        equal("bounded", time.monotonic() - start < 15, True)
        for asker in askers:
            asker.join()
        equal("answers", [answer for answer in answers if answer != 202], [])
        equal("it is remembered", len(os.listdir(a.state)), 1)
        b.process.send_signal(signal.SIGCONT)
        a.start()
        a.in_step(b)


@claim
def a_change_goes_one_hop_and_to_oneself_not_at_all():
    number = port()
    with Door(number=number, peers=["http://127.0.0.1:%d" % number]) as d:
        wait_for("itself", lambda: d.status()["peers"][0]["state"] == "itself")
        equal("put", d.put("h/a")[0], 201)
        equal("stays", d.has("h/a"), True)
    with doors(2) as (a, b):
        equal("put", a.put("h/a")[0], 201)
        equal("put", b.put("h/a")[0], 201)
        time.sleep(1)
        equal("told", [d.status()["counters"]["told"] for d in (a, b)], [1, 1])


def certificate(directory, name):
    """Paths of one for 127.0.0.1, and of its key."""
    cert, key = os.path.join(directory, name + ".crt"), os.path.join(directory, name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    os.chmod(key, 0o600)
    return cert, key


@claim
def peers_speak_tls_and_show_no_token_to_who_is_not_certified():
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        os.chmod(directory, 0o755)
        cert, key = certificate(directory, "good")
        numbers = [port(), port()]
        some = [stack.enter_context(Door("certificate " + cert, "key " + key, "peer-ca " + cert, number=number,
                                         tls=cert, peers=["https://127.0.0.1:%d" % other]))
                for number, other in (numbers, numbers[::-1])]
        some[0].in_step(some[1])
        some[1].in_step(some[0])
        some[1].put("h/a", Afpa_Peers="none")
        equal("delete", some[0].delete("h/a"), (200, {"deleted": 0, "peers": {some[1].url: "confirmed"}}))
        equal("there", some[1].has("h/a"), False)

        bad = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        bad.load_cert_chain(*certificate(directory, "bad"))
        with Peer() as false:
            false.socket = bad.wrap_socket(false.socket, server_side=True)
            with Door("peer-ca " + cert, "peer-timeout 2s", peers=[false.url.replace("http", "https")]) as d:
                equal("delete", d.delete("h/a")[0], 202)
                equal("what it has seen", false.seen, [])


@claim
def what_peers_say_is_judged_as_what_clients_say():
    good = {"change": "delete", "port": 80, "host": "h", "text": "/a"}
    with Door() as d:
        d.put("h/a")

        def says(body, token=door.PEER):
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            return d.ask("POST", "/v1/peer", text, token=token)[0]
        for bad in (b"", b"{", b"[]", b"null", b'{"from": 1, "changes": []}', b'{"from": "x"}', b"[" * 100000,
                    b'{"from": "x", "from": "y", "changes": []}', b"\xff" * 10,
                    *({"from": "x", "changes": [dict(good, **change)]} for change in (
                        {"change": "put"}, {"port": -1}, {"port": 65536}, {"port": "80"}, {"host": "a b"}, {"host": ""},
                        {"host": "h:80"}, {"text": ""}, {"text": "a"}, {"text": "/../a"}, {"text": "/a\n"},
                        {"text": "/" + "x" * 3000}, {"host": "x" * 300}, {"change": "tag", "host": "", "text": "a b"},
                        {"change": "tag", "host": "h", "text": "a"}, {"change": "tag", "host": "", "text": ""},
                        {"change": "flush"}, {"host": "h/a?", "text": "/a"}, {"change": None}, {"text": "/a\0b"})),
                    {"from": "x", "changes": [good] * 257}, {"from": "x", "changes": [good, {}]},
                    {"from": "x", "changes": good}):
            equal(str(bad)[:80], says(bad), 400)
        equal("with a client's token", says({"from": "x", "changes": [good]}, door.TOKEN), 403)
        equal("stays", d.has("h/a"), True)
        with d.connect() as s:
            s.sendall(b"POST /v1/peer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (
                door.PEER.encode(), (1 << 20) + 1))
            equal("too long", s.recv(1000).split()[1], b"413")
        equal("good", says({"from": "x", "changes": [good]}), 200)
        equal("is gone", d.has("h/a"), False)
        equal("a peer's token for more",
              [d.put("h/a", token=door.PEER)[0], d.ask("GET", "/v1/status", token=door.PEER)[0]], [403, 403])


def disturb(dice, all_of, stopped):
    """Some are stopped, go on, or are killed and start anew with an empty table, as a machine would."""
    d = dice.choice(all_of)
    what = dice.randrange(6)
    if what == 0 and len(stopped) < len(all_of) - 1:
        d.freeze()
        stopped.add(d)
    elif what in (1, 2) and stopped:
        other = dice.choice(sorted(stopped, key=all_of.index))
        other.process.send_signal(signal.SIGCONT)
        stopped.remove(other)
    elif what == 3 and d not in stopped:
        d.stop(signal.SIGKILL)
        d.start()


@claim
def whatever_fails_nobody_in_step_has_what_is_old():
    dice = random.Random(42)
    with doors(3, "peer-timeout 300ms", "queue 4") as all_of:
        newest, stopped, pages, kept = {}, set(), ["h/%d" % number for number in range(12)], 0
        for _ in range(25):
            for _ in range(dice.randrange(1, 12)):
                d = dice.choice([d for d in all_of if d not in stopped])
                page, what = dice.choice(pages), dice.randrange(20)
                if what < 12:
                    newest[page] = (d, dice.randrange(1, 10000))
                    d.put(page, b"x" * newest[page][1], xkey="even" if int(page[2:]) % 2 == 0 else "odd")
                elif what < 17:
                    d.delete(page)
                    newest.pop(page, None)
                elif what < 19:
                    tag = dice.choice(("even", "odd"))
                    d.ask("POST", "/v1/ban", xkey=tag)
                    newest = {page: new for page, new in newest.items() if (int(page[2:]) % 2 == 0) != (tag == "even")}
                else:
                    d.ask("POST", "/v1/flush")
                    newest = {}
                disturb(dice, all_of, stopped)
            for d in stopped:
                d.process.send_signal(signal.SIGCONT)
            stopped.clear()
            for d in all_of:
                d.in_step(*(other for other in all_of if other is not d))
            for page in pages:
                for d in all_of:
                    status, said, _ = d.ask("GET", "/v1/object/" + page)
                    if status == 200:
                        equal(page, (d, said["at"][0]["bytes"]), newest.get(page))
                        kept += 1
        print("# %d pages were there" % kept)
        if not kept:
            raise AssertionError("nothing was kept at all")


@claim
def many_changes_at_once_are_all_confirmed():
    with doors(3) as (a, b, c):
        failed = []

        def ask(d, number):
            for count in range(40):
                status = d.delete("h/%d-%d" % (number, count))[0]
                if status != 200:
                    failed.append(status)
        askers = [threading.Thread(target=ask, args=(d, number)) for number, d in enumerate((a, b, c) * 4)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        equal("not confirmed", failed, [])
        equal("told", [d.status()["counters"]["told"] for d in (a, b, c)], [320] * 3)


main()
