# SPDX-License-Identifier: GPL-2.0
"""A guest whose instructions are counted, and the load that is put on it from outside."""
import contextlib
import json
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# QEMU 10's `max` copies with rep movsb, charged per byte; without these, per 8 bytes.
CPU = "max,-erms,-fsrm,-fsrs,-fzrm"
ICOUNT = "-icount shift=0"
# Seconds, for whatever waits for a guest: machines are shared.
PATIENCE = 1500


def qemu_version():
    out = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True)
    return re.search(r"version (\S+( \([^)]*\))?)", out.stdout).group(1)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def segment():
    """In a network namespace that is only ours: a tap device that leaves segmentation to the host; its name."""
    for words in (("link", "set", "lo", "up"), ("tuntap", "add", "tap0", "mode", "tap", "vnet_hdr"),
                  ("addr", "add", "10.0.2.2/24", "dev", "tap0"), ("link", "set", "tap0", "up")):
        subprocess.run(["ip", *words], check=True)
    return "tap0"


class Turns:
    """A guest, whose QMP socket is at @path, and others outside of it work in turns: see turns.c."""

    def __init__(self, path):
        self.path = path

    def qemu(self):
        """QEMU's arguments for it."""
        return f"-qmp unix:{self.path},server=on,wait=off"

    @contextlib.contextmanager
    def taken(self, guest, ids):
        """While this lasts, by @guest and the processes @ids."""
        qemu = children(guest.process.pid, "qemu-system")[0]
        turns = subprocess.Popen([str(TOP / "build/bench/turns"), self.path, *map(str, [qemu, *ids])])
        try:
            yield
        finally:
            turns.terminate()
            status = turns.wait()
        if status:
            raise RuntimeError("turns lost the guest's monitor")


def children(pid, name):
    """The processes called @name that @pid has started."""
    out = subprocess.run(["pgrep", "-P", str(pid), name], capture_output=True, text=True, check=False).stdout
    return [int(n) for n in out.split()]


class Guest:
    """tools/vm/guest with one counted CPU; @command ends by running snapshot.py on port 8090.

    Its segment is QEMU's user network, whose device takes nothing larger than a frame; or @tap,
    a device of segment(), which takes what TCP sends and leaves cutting and summing to the host.
    """

    def __init__(self, command, name="counted", nets=(), mem="1G", timeout=900, forward="",
                 qemu="", tap=None):
        if tap:
            self.http, self.control = ("10.0.2.15", 8080), ("10.0.2.15", 8090)
            user = f"tap,ifname={tap},script=no,downscript=no"
        else:
            self.http, self.control = (("127.0.0.1", free_port()) for _ in range(2))
            user = (f"user,hostfwd=tcp:127.0.0.1:{self.http[1]}-10.0.2.15:8080,"
                    f"hostfwd=tcp:127.0.0.1:{self.control[1]}-10.0.2.15:8090")
            user += f",{forward}" if forward else ""
        line = [str(TOP / "tools/vm/guest"), "--accel", "tcg", "--cpus", "1", "--cpu", CPU,
                "--qemu", f"{ICOUNT} {qemu}",
                "--mem", mem, "--timeout", str(timeout), "--name", name, "--net", user,
                "--address", "10.0.2.15/24"]
        for net in nets:
            line += ["--net", net]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*line, "--", *command], stdout=self.errors, stderr=self.errors)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.snapshot()
                break
            except (OSError, ValueError) as e:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the counted guest did not start: {self.said()}") from e
                time.sleep(1)
        time.sleep(2)
        # What one snapshot costs, so that it can be taken off.
        costs = [self.busy(self.snapshot(), self.snapshot()) for _ in range(3)]
        self.snapshot_cost = statistics.median(costs)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:]

    def ask(self, what):
        with socket.create_connection(self.control, 120) as s:
            s.sendall(what)
            data = b""
            while part := s.recv(1 << 20):
                data += part
        return data

    def snapshot(self):
        return json.loads(self.ask(b"snapshot\n"))

    def kallsyms(self):
        """Addresses of functions; modules that are loaded later are not in it."""
        return self.ask(b"symbols\n").decode()

    @staticmethod
    def busy(before, after):
        """Instructions from @before to @after."""
        return (after["elapsed"] - before["elapsed"]) - (after["idle"] - before["idle"])

    def end(self):
        try:
            with socket.create_connection(self.control, 10) as s:
                s.sendall(b"quit\n")
        except OSError:
            pass
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()
        self.errors.close()

    def measure(self, load):
        """Instructions, switches and packets per request of one run of @load() -> requests."""
        before = self.snapshot()
        requests = load()
        after = self.snapshot()
        packets = sum(after["packets"][n][way] - before["packets"][n][way]
                      for n in after["packets"] if n != "lo" for way in ("rx", "tx"))
        return {"requests": requests,
                "instructions": round((self.busy(before, after) - self.snapshot_cost) / requests),
                "switches": round((after["switches"] - before["switches"]) / requests, 2),
                "packets": round(packets / requests, 2)}


def wrk(url, seconds, connections=8, close=False):
    """Runs wrk from the host; every answer must be good."""
    line = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--timeout", "60"]
    if close:
        line += ["-H", "Connection: close"]
    out = subprocess.run([*line, url], capture_output=True, text=True, check=True).stdout
    bad = re.search(r"Non-2xx.*", out) or (not close and re.search(r"Socket errors.*", out))
    if bad:
        raise RuntimeError(f"{url}: {bad.group(0)}")
    return int(re.search(r"(\d+) requests in", out).group(1))


def load(address, path, connections, requests, new, more=()):
    """@requests from the host, each on a new connection if @new; every answer must be good. @more: of load.c."""
    line = [str(TOP / "build/bench/load"), "-n", str(requests), "-c", str(connections), *more]
    if not new:
        line.append("-k")
    done = subprocess.run([*line, address[0], str(address[1]), f"/{path}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path}: {done.stderr}")
    return int(done.stdout)


def head_of(address, path, new):
    """Bytes of the head of an answer to what load() asks for."""
    more = "Connection: close\r\n" * new
    with socket.create_connection(address, 60) as s:
        s.sendall(f"GET /{path} HTTP/1.1\r\nHost: {address[0]}\r\n{more}\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            part = s.recv(65536)
            if not part:
                raise RuntimeError(f"{path}: an answer without a head: {data[:60]}")
            data += part
    return data.index(b"\r\n\r\n") + 4


# The one cipher suite that the load offers.
SUITE = "TLS_AES_128_GCM_SHA256"


def spread(counts):
    """Percent between the least and the most of @counts."""
    return round(100 * (max(counts) - min(counts)) / min(counts), 2)


class Origin:
    """nginx on the host's loopback, outside every counted guest."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="flotilla-origin-"))
        self.port = free_port()
        www = self.dir / "www"
        www.mkdir()
        for size in (64, 1024, 8192, 65536):
            (www / f"f{size}").write_bytes(b"x" * size)
        self.dir.chmod(0o755)
        conf = self.dir / "nginx.conf"
        conf.write_text(f"""
            daemon off; worker_processes 1; pid {self.dir}/pid; error_log {self.dir}/error;
            events {{ worker_connections 1024; }}
            http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
                keepalive_timeout 600s; open_file_cache max=100;
                client_body_temp_path {self.dir}/a; proxy_temp_path {self.dir}/b;
                fastcgi_temp_path {self.dir}/c; uwsgi_temp_path {self.dir}/d; scgi_temp_path {self.dir}/e;
                server {{ listen 127.0.0.1:{self.port}; root {www}; }} }}""")
        self.process = subprocess.Popen(["nginx", "-c", str(conf), "-e", f"{self.dir}/error"])

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
