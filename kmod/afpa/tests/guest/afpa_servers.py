#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug four servers, several times each
# cpus: 2
"""Servers that know nothing of it: nginx, Apache, lighttpd and flash, each behind the kernel and beside one without."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import TOP, Client, Device, body, claim, counted, equal, main, same, wait_for, wire    # noqa: E402
import kit                                      # noqa: E402
from ssp import counters                        # noqa: E402

CONF = {
    "nginx": """daemon off; user root; worker_processes 2; pid {dir}/pid; error_log {dir}/log;
        events {{ }}
        http {{ access_log off; keepalive_timeout 600s; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
            fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
            server {{ listen {address}; root {root}; }} }}""",
    "lighttpd": """server.document-root = "{root}"
        server.port = {port}
        server.bind = "{host}"
        server.errorlog = "{dir}/log"
        server.max-keep-alive-idle = 600
        """,
    "apache2": """ServerName here
        PidFile {dir}/pid
        ErrorLog {dir}/log
        DefaultRuntimeDir {dir}
        LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
        LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
        KeepAliveTimeout 600
        Listen {address}
        User nobody
        Group nogroup
        DocumentRoot {root}
        """,
    "flash": "listen {address}\nuser root\nworkers 2\nroot {root}\n",
}
WORDS = {
    "nginx": ("-c", "{dir}/conf", "-e", "{dir}/log"), "lighttpd": ("-D", "-f", "{dir}/conf"),
    "apache2": ("-D", "FOREGROUND", "-f", "{dir}/conf"), "flash": ("--config", "{dir}/conf"),
}
# Not for the kernel: the server's answer to each is as if there were none.
FOREIGN = (
    wire("/f", fields="Range: bytes=1-3\r\n"), wire("/f", fields="Range: bytes=0-18446744073709551615\r\n"),
    wire("/f", fields="If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"), wire("/f", method="OPTIONS"),
    wire("/f", method="TRACE", fields="X-Odd: \xe9  y \r\nx-odd:\tz\r\n"),
    wire("/f", fields="Cookie: a=b\r\n"), wire("/f", fields="Authorization: Basic eDp5\r\n"),
    wire("/f", fields="Content-Length: 4\r\n") + b"body", wire("/none"), wire("/%66"), wire("/./f"), wire("/f?x"),
    wire("/f", method="POST", fields="Content-Length: 2\r\n") + b"ab", wire("/f", host=""),
    wire("/f", fields="Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n", wire("/f", fields="Host: b\r\n"),
    b"GET /f HTTP/1.1\nHost: h\n\n", b"GET /f HTTP/3.0\r\nHost: h\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /f HT",
    wire("/f", fields="X-Long: " + "x" * 9000 + "\r\n"),
)


class Web:
    """One of them, with a directory of files of its own."""

    def __init__(self, name, stack, root=None):
        self.name = name
        program = os.path.join(TOP, "build/bin/flash") if name == "flash" else kit.need(name)
        self.dir = tempfile.mkdtemp(prefix="afpa-servers-")
        stack.callback(shutil.rmtree, self.dir)
        os.chmod(self.dir, 0o777)
        self.root = root or os.path.join(self.dir, "root")
        if not root:
            os.mkdir(self.root)
            self.put("f", b"file f\n")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.site = free.getsockname()
        values = {"dir": self.dir, "root": self.root, "host": self.site[0], "port": self.site[1],
                  "address": "%s:%d" % self.site}
        with open(os.path.join(self.dir, "conf"), "w", encoding="ascii") as file:
            file.write(CONF[name].format(**values))
        self.words = (program, *(word.format(**values) for word in WORDS[name]))
        self.start()
        stack.callback(self.kill)

    def put(self, name, data):
        with open(os.path.join(self.root, name), "wb") as file:
            file.write(data)
        # Apache calls the tag of a file weak while it is younger than a second.
        os.utime(file.name, (1e9, 1e9))

    def start(self):
        self.child = subprocess.Popen(self.words, start_new_session=True, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        wait_for(f"{self.name} listens", self.listens)

    def listens(self):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(self.site):
            return True

    def kill(self):
        """All of its processes, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


def each(function):
    """The claim, of each of them."""
    def all_of_them():
        for name in CONF:
            with Device() as device, contextlib.ExitStack() as stack:
                print(f"# {name}", flush=True)
                web = Web(name, stack)
                listeners, refused, error = device.site_add(web.site)
                stack.callback(device.site_del, web.site)
                equal(f"{name}: refused, errno", (refused, error), (0, 0))
                equal(f"{name}: listeners", listeners >= 1, True)
                function(device, web, stack)
    all_of_them.__name__ = function.__name__
    return claim(all_of_them)


def wakes(web):
    """Whoever accepts has come back from an accept(2) that began before the site: it is answered."""
    def answered():
        with Client(web.site) as client:
            return client.get("/k") == b"of the kernel"
    wait_for("the kernel's answers", answered)


@each
def hits_are_the_kernels_and_the_first_miss_and_what_follows_are_its(device, web, stack):
    device.put(web.site, "/k", b"of the kernel")
    device.put(web.site, "/f", b"not the file")
    web.put("m", b"file m\n")
    wakes(web)
    for version, fields in (("1.1", ""), ("1.0", "Connection: keep-alive\r\n")):
        with Client(web.site) as client, counted(Hits=21, Misses=1):
            for path, data in [("/k", b"of the kernel"), ("/f", b"not the file")] * 10:
                equal(path, client.get(path, version=version, fields=fields), data)
            equal("one more", client.get("/k", version=version, fields=fields), b"of the kernel")
            equal("a miss", client.get("/m", version=version, fields=fields), b"file m\n")
            equal("what follows", client.get("/f", version=version, fields=fields), b"file f\n")
    # No more than are answered at once: a server that comes from accept(2) may be faster than a work item.
    paths = ["/k", "/f"] * 30 + ["/m", "/f", "/m"]
    with Client(web.site) as client, counted(Hits=60, Misses=1):
        client.sock.sendall(b"".join(map(wire, paths)))
        got = [client.answer()[1] for _ in paths]
    equal("pipelined", got, [b"of the kernel", b"not the file"] * 30 + [b"file m\n", b"file f\n", b"file m\n"])
    with Client(web.site) as client:
        equal("and the end", client.get("/f", fields="Connection: close\r\n"), b"not the file")
        equal("end", client.at_end(), True)


def told(site, pieces):
    """All that the server says until it closes, without what differs by itself."""
    got = b""
    with socket.create_connection(site) as sock, contextlib.suppress(ConnectionResetError, BrokenPipeError):
        sock.settimeout(kit.PATIENCE)
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(0.02)
        sock.shutdown(socket.SHUT_WR)
        while part := sock.recv(65536):
            got += part
    got = re.sub(rb"(?m)^(Date|Expires): .*$", rb"\1: then", got, flags=re.IGNORECASE)
    # Apache has it in an order of each process.
    got = re.sub(rb"(?m)^Allow: (.*)\r$", lambda m: b"Allow: " + b" ".join(sorted(re.split(rb"[, ]+", m[1]))), got)
    return got.replace(b"%d" % site[1], b"port")


@each
def what_the_kernel_does_not_answer_is_as_without_it(device, web, stack):
    bare = Web(web.name, stack, web.root)
    device.put(web.site, "/f", b"not the file")
    device.put(web.site, "/k", b"of the kernel")
    wakes(web)
    # Some are sound requests for what is not there, one is half of one.
    with counted(Hits=len(FOREIGN), Misses=6, Deferred=2 * len(FOREIGN) - 8):
        for text in FOREIGN:
            theirs = told(bare.site, [text])
            same(f"{text[:60]}", told(web.site, [text]), theirs)
            # In the midst of a kept connection, too, and in pieces.
            ours = told(web.site, [wire("/k"), text[:7], text[7:]])
            head, _, rest = ours.partition(b"of the kernel")
            equal("a hit before it", head.startswith(b"HTTP/1.1 200 OK\r\n"), True)
            same(f"{text[:60]} after a hit", rest, theirs)


def flushed():
    return counters("Afpa")["AfpaFlushed"]


@each
def an_answer_outlives_its_server_and_the_next_one_is_found(device, web, stack):
    data = body(300000)
    device.put(web.site, "/k", b"of the kernel")
    device.put(web.site, "/big", data)
    for _ in range(2):
        wakes(web)
        before = flushed()
        with Client(web.site, rcvbuf=20000) as client, counted(Hits=1, Flushed=1):
            client.ask("/big")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            web.kill()
            wait_for("the rest in the queue", lambda: flushed() > before)
            same("the answer", client.answer()[1], data)
            equal("end", client.at_end(), True)
        wait_for("connections gone", lambda: not device.next_site(0)["conns"])
        web.start()


main()
