#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: debug it takes up to a quarter of an hour there
"""flotilla process move: unmodified servers are replaced under load, and no client notices."""
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import PATIENCE, SLOW, TOP, claim, main, rounds, wait     # noqa: E402
from lasting import Lasting     # noqa: E402
from move import FLOTILLA, flotilla, loopback_up, no_resets     # noqa: E402

WHERE = "/run/handoff-restart"
ROOT = WHERE + "/root"
PORT = 8080
INNER = itertools.count(9000)     # a port of its own for what each has behind itself
FILES = {"small": os.urandom(700), "middle": os.urandom(40000), "big": os.urandom(600000)}

NGINX = """daemon off;
user root;
worker_processes 2;
error_log {dir}/error.log info;
pid {dir}/pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    keepalive_requests 1000000;
    keepalive_timeout 300s;
    client_header_timeout 300s;
    client_max_body_size 10m;
    server {{
        listen 127.0.0.1:{port} reuseport backlog=1024;
        root {root};
        add_header X-Who {name};
        location /slow {{ limit_rate 100k; alias {root}/big; }}
        location /post {{ proxy_pass http://127.0.0.1:9999/; proxy_request_buffering on; }}
    }}
    server {{ listen 127.0.0.1:{inner}; location / {{ return 200 "posted"; }} }}
}}
"""


class Server:
    """One process tree; its connections by ss."""

    alive = []

    def __init__(self, kind, name):
        self.place = os.path.join(WHERE, name)
        os.makedirs(self.place, exist_ok=True)
        os.chmod(self.place, 0o777)
        if kind == "nginx":
            conf = os.path.join(self.place, "conf")
            inner = next(INNER)
            with open(conf, "w", encoding="ascii") as file:
                file.write(NGINX.format(dir=self.place, port=PORT, root=ROOT, name=name, inner=inner)
                           .replace("9999", str(inner)))
            words = ("nginx", "-c", conf, "-e", self.place + "/error.log")
        else:
            words = (os.path.join(TOP, "build/bin/flash"), "--root", ROOT, "--user", "root",
                     "--workers", "2", "--listen", "127.0.0.1:%d" % PORT)
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        self.pid = self.child.pid
        self.alive.append(self)
        wait(lambda: self.listens() or self.child.poll() is not None)
        assert self.child.poll() is None, (kind, self.log())

    def log(self):
        try:
            with open(self.place + "/error.log", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def pids(self):
        out = subprocess.run(("pgrep", "-P", str(self.pid)), stdout=subprocess.PIPE, text=True,
                             check=False).stdout.split()
        return [str(self.pid)] + out

    def lines(self, *words):
        out = subprocess.run(("ss", "-Htnp") + words, stdout=subprocess.PIPE, text=True, check=True).stdout
        return [x for x in out.splitlines() if any("pid=%s," % pid in x for pid in self.pids())]

    def listens(self):
        return bool(self.lines("-l", "sport = :%d" % PORT))

    def connections(self):
        return len(self.lines("state", "established", "sport = :%d" % PORT))

    def kill(self, how=signal.SIGKILL):
        # All at once: a worker that ends alone is replaced, and the new one would outlive the server.
        os.killpg(self.pid, how)
        self.child.wait()
        self.alive.remove(self)


def first(kind, name):
    """A server that is alone, whatever the claim before has left."""
    while Server.alive:
        Server.alive[-1].kill()
    return Server(kind, name)


class Client(Lasting):
    """One that remembers who has answered."""

    def __init__(self, names, pause=0.0, post=False):
        super().__init__(socket.create_connection(("127.0.0.1", PORT), PATIENCE), names, pause)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.post = post
        self.who = set()

    def exchange(self, name):
        if self.post:
            body = os.urandom(65536)
            self.sock.sendall(b"POST /post HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n" + body)
            want = b"posted"
        else:
            self.sock.sendall(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % name.encode())
            want = FILES["big" if name == "slow" else name]
        for line in self.answered(want).split(b"\r\n"):
            if line.startswith(b"X-Who: "):
                self.who.add(line[7:].decode())


class Load:
    """Clients that run while something is done to their servers."""

    def __init__(self, *clients):
        self.clients = clients

    def __enter__(self):
        for client in self.clients:
            client.start()
        wait(lambda: all(c.done for c in self.clients) or any(c.error for c in self.clients))
        return self

    def more(self, times=2):
        """Each has had so many more answers."""
        goal = [c.done + times for c in self.clients]
        wait(lambda: all(c.done >= n for c, n in zip(self.clients, goal)) or
             any(c.error for c in self.clients))
        self.check()

    def check(self):
        errors = [repr(c.error) for c in self.clients if c.error]
        assert not errors, errors

    def __exit__(self, kind, *_):
        for client in self.clients:
            client.ends = True
        for client in self.clients:
            client.close()
        if kind is None:
            self.check()


def prepare():
    os.makedirs(ROOT, exist_ok=True)
    for name, data in FILES.items():
        with open(os.path.join(ROOT, name), "wb") as file:
            file.write(data)


def move(old, new, *words, check=0):
    ran = flotilla("-j", "process", "move", str(old.pid), str(new.pid), *words)
    assert ran.returncode == check, (ran.returncode, ran.stdout, ran.stderr, new.log()[-2000:])
    result = json.loads(ran.stdout)
    print("# moved %(moved)d, ended %(ended)d, left %(left)d, put off %(put_off)s" % result)
    return result


def replaced(kind, *clients, quiet=True):
    """Servers of a kind replace each other under the load of these clients; quiet: no RST at all."""
    old = first(kind, kind + "1")
    made = [make() for make in clients]
    with no_resets() if quiet else contextlib.nullcontext(), Load(*made) as load:
        assert old.connections() == len(made), old.connections()
        for number in range(2, 2 + rounds(2, 1)):
            new = Server(kind, "%s%d" % (kind, number))
            result = move(old, new, "--wait", str(60 * SLOW))
            assert result["moved"] == len(made) and not result["ended"], result
            assert old.connections() == 0 and new.connections() == len(made)
            old.kill(signal.SIGTERM)
            load.more()
            if kind == "nginx":
                assert "[crit]" not in old.log() and "[alert]" not in old.log(), old.log()
            old = new
        print("# %d answers" % sum(c.done for c in made))
    old.kill()


@claim
def nginx_is_replaced_under_load_and_no_request_fails():
    replaced("nginx", *[lambda: Client(("small", "middle", "big"), 0.005)] * 5, lambda: Client(("small",), 0.2))


@claim
def flash_is_replaced_under_load_and_no_request_fails():
    replaced("flash", *[lambda: Client(("small", "middle", "big"), 0.005)] * 5, lambda: Client(("small",), 0.2))


@claim
def bodies_of_64_kb_and_slow_answers_go_on_where_they_began():
    replaced("nginx", *[lambda: Client(("x",), 0.01, post=True)] * 3, *[lambda: Client(("slow",), 0.05)] * 2,
             quiet=False)       # nginx resets its own connection to who does not read the body


@claim
def idle_connections_move_when_asked_to():
    old = first("nginx", "idle1")
    clients = [Client(("small",)) for _ in range(rounds(40, 10))]
    for client in clients:
        client.exchange("small")
    new = Server("nginx", "idle2")
    with no_resets():
        left = move(old, new, "--wait", "1", check=1)
        assert left["waiting"] == len(clients) and left["moved"] == 0, left
        assert move(old, new, "--idle", "200")["moved"] == len(clients)
        assert old.connections() == 0 and new.connections() == len(clients)
        old.kill()
        for client in clients:
            client.who.clear()
            client.exchange("small")
            assert client.who == {"idle2"}, client.who
            client.sock.close()
    new.kill()


@claim
def a_new_process_that_dies_leaves_the_rest_to_the_old_one():
    old = first("nginx", "dies1")
    clients = [Client(("small",)) for _ in range(5)]
    for client in clients:
        client.exchange("small")
    new = Server("nginx", "dies2")
    with subprocess.Popen((FLOTILLA, "process", "move", str(old.pid), str(new.pid)),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tool:
        # New clients find the new one only: so far it is.
        wait(lambda: hidden(old))
        new.kill()
        assert tool.wait(PATIENCE) == 1
        assert "does not listen any more" in tool.stderr.read()
    for client in clients:
        client.exchange("small")
        assert client.who == {"dies1"}
        client.sock.close()
    client = Client(("small",))
    client.exchange("small")
    assert client.who == {"dies1"}
    client.sock.close()
    old.kill()


def hidden(server):
    """Clients do not find its listeners."""
    return not server.listens()


@claim
def an_old_process_that_is_killed_ends_the_move():
    old = first("nginx", "killed1")
    clients = [Client(("small",)) for _ in range(5)]
    for client in clients:
        client.exchange("small")
    new = Server("nginx", "killed2")
    with subprocess.Popen((FLOTILLA, "-j", "process", "move", str(old.pid), str(new.pid)),
                          stdout=subprocess.PIPE, text=True) as tool:
        wait(lambda: hidden(old))
        old.kill()
        assert tool.wait(PATIENCE) == 0
        result = json.loads(tool.stdout.read())
        assert result["left"] == 0, result
    for client in clients:
        client.sock.close()
    new.kill()


@claim
def of_two_moves_at_once_one_is_told_to_wait():
    old = first("nginx", "two1")
    with no_resets(), Load(*[Client(("small", "middle"), 0.01) for _ in range(8)]) as load:
        new = Server("nginx", "two2")
        tools = [subprocess.Popen((FLOTILLA, "-j", "process", "move", str(old.pid), str(new.pid)),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [tool.communicate(timeout=PATIENCE * 2) for tool in tools]
        # Unless one comes when the other has ended: then there is nothing left for it.
        moved = [json.loads(out)["moved"] for tool, (out, _) in zip(tools, said) if not tool.returncode]
        assert moved and sum(moved) == 8, said
        for tool, (_, error) in zip(tools, said):
            assert not tool.returncode or "is in another move" in error, said
        load.more()
        assert old.connections() == 0 and new.connections() == 8
    old.kill()
    new.kill()


@claim
def what_cannot_be_done_is_said():
    old = first("nginx", "said1")
    new = Server("nginx", "said2")
    other = subprocess.Popen(("sleep", "1000"), stdin=subprocess.DEVNULL)
    one, two = str(old.pid), str(new.pid)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    for words, status, sentence, options in (
            ((one, "999999"), 1, "there is no process 999999", {}),
            ((one, one), 2, "are the same", {}),
            ((one,), 2, "are missing", {}),
            ((one, str(other.pid)), 1, "listens on no TCP address", {}),
            ((old.pids()[1], one), 1, "the same listening socket", {}),
            ((one, two), 1, "CAP_NET_ADMIN", nobody)):
        ran = flotilla("process", "move", *words, check=status, **options)
        assert sentence in ran.stderr and not ran.stdout, ran
    ran = flotilla("process", "move", "--dry-run", one, two, check=0)
    assert "has 0 connections" in ran.stdout, ran
    assert old.listens()
    other.kill()
    other.wait()
    old.kill()
    new.kill()


if __name__ == "__main__":
    loopback_up()
    prepare()
    main()
