"""Starts flash on a free port of loopback and talks to it in raw bytes; prints TAP."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../testing/lib"))
import kit                                      # noqa: E402

TOP = os.environ.get("FLT_TOP") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "..", ".."))
FLASH = os.environ.get("FLASH") or os.path.join(TOP, "build", "bin", "flash")
# What counters() asks.
STATUS = "status /status\n"


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def counters(server):
    """Those of a server whose configuration has STATUS."""
    return json.loads(server.get("/status").body)


def wait_for(what, seconds=kit.PATIENCE):
    """Waits until what() is true."""
    return kit.wait(what, seconds)


class Response:
    """One response, taken from a connection."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __getitem__(self, name):
        return self.headers.get(name.lower())

    def __repr__(self):
        return "<%s %r %d bytes %r>" % (self.status, self.headers, len(self.body), self.body[:60])


class Client:
    """A connection that keeps what it has received and not used."""

    def __init__(self, port, timeout=60):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.buf = b""

    def send(self, data):
        """Sends bytes or text."""
        self.sock.sendall(data.encode() if isinstance(data, str) else data)
        return self

    def more(self):
        """Receives once; False at the end."""
        data = self.sock.recv(1 << 16)
        self.buf += data
        return bool(data)

    def line(self):
        """One line without its end."""
        while b"\n" not in self.buf:
            if not self.more():
                raise EOFError(self.buf)
        line, self.buf = self.buf.split(b"\n", 1)
        return line.rstrip(b"\r").decode("latin-1")

    def exactly(self, n):
        """n bytes."""
        while len(self.buf) < n:
            if not self.more():
                raise EOFError("%d of %d bytes" % (len(self.buf), n))
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def rest(self):
        """All until the end."""
        while self.more():
            pass
        data, self.buf = self.buf, b""
        return data

    def response(self, head=False):
        """The next final response."""
        while True:
            status = int(self.line().split(" ")[1])
            headers = {}
            while True:
                line = self.line()
                if not line:
                    break
                name, value = line.split(":", 1)
                headers[name.lower()] = value.strip()
            if status >= 200:
                break
        body = b""
        if head or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.line().split(";")[0], 16)
                body += self.exactly(size)
                self.line()
                if not size:
                    break
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.rest()
        return Response(status, headers, body)

    def get(self, path, *headers, method="GET", version="1.1"):
        """One request and its response."""
        lines = ["%s %s HTTP/%s" % (method, path, version), "Host: test"] + list(headers)
        self.send("\r\n".join(lines) + "\r\n\r\n")
        return self.response(head=method == "HEAD")

    def closed(self):
        """Has the server ended the connection?"""
        try:
            return not self.buf and not self.sock.recv(1)
        except ConnectionResetError:
            return True

    def close(self):
        """Ends it."""
        self.sock.close()


class Server:
    """flash with a document root of its own, @below a directory if /tmp, which may be memory, will not do."""

    def __init__(self, *args, config=None, env=None, preexec=None, wrapper=(), below=None):
        self.dir = tempfile.mkdtemp(prefix="flash-test-", dir=below)
        self.root = os.path.join(self.dir, "www")
        os.mkdir(self.root)
        self.port = free_port()
        self.args, self.config, self.env = list(args), config, env
        self.preexec, self.wrapper = preexec, list(wrapper)
        self.proc = None
        self.errors = open(os.path.join(self.dir, "stderr"), "wb+")

    def write(self, name, data, mtime=None):
        """A file below the root."""
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        return path

    def command(self):
        """The command line."""
        cmd = self.wrapper + [FLASH, "--listen", "127.0.0.1:%d" % self.port, "--root", self.root]
        # Otherwise it warns; and a user's own would have to get into our directories.
        if not os.geteuid() and "--user" not in self.args and \
                not re.search(r"^user\s", self.config or "", re.M):
            cmd += ["--user", "root"]
        if self.config is not None:
            path = os.path.join(self.dir, "flash.conf")
            with open(path, "w", encoding="utf-8") as f:
                f.write(self.config.replace("@DIR@", self.dir).replace("@ROOT@", self.root))
            cmd += ["--config", path]
        return cmd + self.args

    def start(self):
        """Starts and waits until it accepts."""
        self.proc = subprocess.Popen(self.command(), stderr=self.errors, env=self.env,
                                     preexec_fn=self.preexec)
        wait_for(self.accepts)
        return self

    def accepts(self):
        """Does it?"""
        if self.proc.poll() is not None:
            raise AssertionError("flash ended with %s: %s" % (self.proc.returncode, self.stderr()))
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def client(self, **kw):
        """A new connection."""
        return Client(self.port, **kw)

    def get(self, path, *headers, **kw):
        """One request on a connection of its own."""
        c = self.client()
        try:
            return c.get(path, *headers, **kw)
        finally:
            c.close()

    def raw(self, data):
        """Sends bytes, returns the first response."""
        c = self.client()
        try:
            return c.send(data).response()
        finally:
            c.close()

    def stderr(self):
        """What it has said."""
        self.errors.flush()
        with open(self.errors.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        """Ends it; its exit status."""
        status = None
        if self.proc:
            if self.proc.poll() is None:
                self.proc.send_signal(sig)
            try:
                status = self.proc.wait(2 * kit.PATIENCE)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                status = self.proc.wait()
            self.proc = None
        return status

    def remove(self):
        """Ends it and removes its files."""
        status = self.stop()
        self.errors.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, *exc):
        status = self.stop()
        said = self.stderr()
        self.remove()
        if not kind and ("Sanitizer" in said or "runtime error" in said):
            raise AssertionError("%s\n%s" % (status, said[-6000:]))


def processes_with(text):
    """Those whose command line holds it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                if text.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def helper_processes():
    """Process ids of those that live, by the name of their parents."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="ascii") as f:
                name, rest = re.match(r"\d+ \((.*)\) (.*)", f.read()).groups()
        except (OSError, AttributeError):
            continue
        if name == "flash-helper" and rest[0] not in "ZX":
            found.setdefault(int(rest.split()[1]), []).append(int(pid))
    return found


def children(pid):
    """Process ids of those that a process of one thread has started."""
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(c) for c in f.read().split()]


def cpu_seconds(pid):
    """What a process has used, its own and the kernel's part."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def spawner_of(pid):
    """The process that forks the helpers of a worker."""
    for c in children(pid):
        with open("/proc/%d/comm" % c, encoding="ascii") as f:
            if f.read() == "flash-spawner\n":
                return c
    return None


def equal(got, want, what=""):
    """Fails with both values."""
    if got != want:
        raise AssertionError("%s: got %r, wanted %r" % (what or "value", got, want))


def main(tests, header=""):
    """TAP; the functions' names are the claims. One that returns a text cannot be shown here for that reason."""
    if not os.access(FLASH, os.X_OK):
        kit.bail("%s is not built" % FLASH)

    def hold(test):
        why = test()
        if why:
            raise kit.Skip(why)

    sys.exit(kit.run([(t.__name__, lambda t=t: hold(t)) for t in tests], header=header))
