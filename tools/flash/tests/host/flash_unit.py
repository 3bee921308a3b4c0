#!/usr/bin/env python3
# timeout: 600
"""The shipped unit and configuration, --check, the log's file and reader, and who the workers are."""
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import FLASH, TOP, Client, Server, children, equal, free_port, main, wait_for  # noqa: E402

ROOM = os.path.join(TOP, "tools", "flash")
CAPS = {"CAP_NET_BIND_SERVICE": 10, "CAP_NET_ADMIN": 12}


def unit():
    """The settings of the unit's [Service]."""
    found = {}
    with open(os.path.join(ROOM, "flash.service"), encoding="ascii") as f:
        for line in f:
            if "=" in line and not line.startswith("#"):
                name, value = line.rstrip("\n").split("=", 1)
                found.setdefault(name, []).append(value)
    return found


def status_of(pid):
    """Lines of its /proc status."""
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def check(config, *args, **kw):
    """Exit status and messages of --check."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(config)
        f.flush()
        os.chmod(f.name, 0o644)
        r = subprocess.run([FLASH, "--config", f.name, "--check", *args], stderr=subprocess.PIPE, check=False, **kw)
    return r.returncode, r.stderr.decode()


def as_the_unit_would(u, files):
    """In the child: the user and capabilities that systemd gives it, an /etc and /var/www, log directories it makes."""
    user = u["User"][0]

    def become():
        import ctypes
        import pwd
        libc = ctypes.CDLL(None, use_errno=True)
        pw = pwd.getpwnam(user)
        # A file system of its own where the paths of the unit lead to ours.
        assert not libc.unshare(0x00020000)
        assert not libc.mount(b"none", b"/", None, 1 << 14 | 1 << 18, None)
        for target in ("etc", "log", "www"):
            assert os.path.isdir(os.path.join(files, target))
        os.makedirs("/var/www/html", exist_ok=True)
        for name in " ".join(u.get("LogsDirectory", [])).split():
            os.makedirs(os.path.join(files, "log", name), exist_ok=True)
            os.chown(os.path.join(files, "log", name), pw.pw_uid, pw.pw_gid)
        for source, target in (("log", "/var/log"), ("www", "/var/www/html")):
            assert not libc.mount(os.path.join(files, source).encode(), target.encode(), None, 4096, None)
        caps = [CAPS[c] for c in u["AmbientCapabilities"][0].split()]
        libc.prctl(8, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(pw.pw_gid, pw.pw_gid, pw.pw_gid)
        os.setresuid(pw.pw_uid, pw.pw_uid, pw.pw_uid)
        mask = sum(1 << c for c in caps)
        head = (ctypes.c_uint32 * 2)(0x20080522, 0)
        data = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)
        assert not libc.capset(head, data)
        for c in caps:
            assert not libc.prctl(47, 2, c, 0, 0)
        assert not libc.prctl(38, 1, 0, 0, 0)
    return become


def the_unit_starts_with_the_shipped_configuration():
    if os.geteuid():
        return "needs root"
    u = unit()
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        for name in ("etc", "log", "www"):
            os.mkdir(os.path.join(top, name))
        with open(os.path.join(top, "www", "index.html"), "w", encoding="ascii") as f:
            f.write("shipped")
        # As shipped, but for the port, which may be taken here.
        port = free_port()
        with open(os.path.join(ROOM, "flash.conf"), encoding="ascii") as f:
            text = f.read()
        assert re.search(r"^user %s$" % u["User"][0], text, re.M), "the unit's user is not the configuration's"
        conf = os.path.join(top, "etc", "flash.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(re.sub(r"^listen 80$", "listen 127.0.0.1:%d" % port, text, flags=re.M))
        binary = os.path.join(top, "flash")
        shutil.copy(FLASH, binary)
        os.chmod(binary, 0o755)

        def command(line):
            program, *rest = line.split()
            assert program.endswith("/bin/flash"), line
            return [binary, *[conf if w == "/etc/flash.conf" else w for w in rest]]
        become = as_the_unit_would(u, top)
        subprocess.run(command(u["ExecStartPre"][0]), check=True, preexec_fn=become, timeout=60)
        proc = subprocess.Popen(command(u["ExecStart"][0]), preexec_fn=become)
        try:
            def served():
                assert proc.poll() is None, "it ended with %s" % proc.returncode
                try:
                    return Client(port).get("/").body == b"shipped"
                except OSError:
                    return False
            wait_for(served)
            for pid in children(proc.pid):
                # One of them serves; another may just be born.
                wait_for(lambda pid=pid: {status_of(pid)[which] for which in ("CapEff", "CapPrm", "CapAmb")}
                         == {"0" * 16})
                s = status_of(pid)
                assert "0" not in s["Uid"].split(), s["Uid"]
            subprocess.run(command(u["ExecReload"][0]), check=True, preexec_fn=become, timeout=60)
            log = os.path.join(top, "log", "flash", "access.log")
            os.rename(log, log + ".1")
            proc.send_signal(signal.SIGUSR1)
            wait_for(lambda: os.path.exists(log))
        finally:
            proc.send_signal(signal.SIGQUIT)
            equal(proc.wait(60), 0)
        text = ""
        for name in (log, log + ".1"):
            with open(name, encoding="ascii") as f:
                text += f.read()
        assert "GET / HTTP/1.1" in text, text
    return None


def the_unit_allows_what_hand_back_needs():
    u = unit()
    assert "CAP_NET_ADMIN" in u["CapabilityBoundingSet"][0] and "CAP_NET_ADMIN" in u["AmbientCapabilities"][0]
    assert "AF_NETLINK" in u["RestrictAddressFamilies"][0]
    assert "/dev/handoff rw" in u["DeviceAllow"], u["DeviceAllow"]
    equal(u.get("PrivateDevices", ["no"])[0], "no", "a /dev of its own has no /dev/handoff")
    if not shutil.which("systemd-analyze"):
        return "systemd-analyze is not here"
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top, "flash.service")
        with open(os.path.join(ROOM, "flash.service"), encoding="ascii") as f, \
                open(path, "w", encoding="ascii") as g:
            g.write(f.read().replace("/usr/local/bin/flash", FLASH).replace("man:flash(8)", "https://localhost/"))
        r = subprocess.run(["systemd-analyze", "verify", path], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False)
        ours = [line for line in r.stdout.decode().splitlines() if "flash.service" in line]
        equal(ours, [])
    return None


def check_finds_what_is_missing():
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        os.mkdir(os.path.join(top, "ok"))
        os.chmod(os.path.join(top, "ok"), 0o755)
        os.mkdir(os.path.join(top, "closed"))
        os.chmod(os.path.join(top, "closed"), 0o700)
        open(os.path.join(top, "afile"), "wb").close()
        open(os.path.join(top, "closed.log"), "wb").close()
        os.chmod(os.path.join(top, "closed.log"), 0o600)
        good = "listen 127.0.0.1:8080\nroot %s/ok\n" % top
        if not os.geteuid():
            good += "user nobody\n"
        equal(check(good), (0, ""))
        bad = {"user no-such-user-here\n": "no-such-user-here", "group no-such-group-here\n": "no-such-group-here",
               "root %s/none\n" % top: "none", "root %s/afile\n" % top: "afile",
               "access_log %s/none/log\n" % top: "access_log", "access_log %s\n" % top: "directory",
               "pidfile %s/none/pid\n" % top: "pidfile", "cgi /cgi/ %s/none\n" % top: "cgi",
               "fastcgi /app/ exec:%s/none\n" % top: "fastcgi", "fastcgi /app/ exec:%s/afile\n" % top: "fastcgi",
               "vhost x {\nroot %s/none\n}\n" % top: "none", "error_page 404 %s/none\n" % top: "none",
               "mime_file %s/none\n" % top: "none"}
        if not os.geteuid():
            bad["root %s/closed\n" % top] = "closed"
            bad["access_log %s/closed.log\n" % top] = "closed.log"
            bad["cgi /cgi/ %s/closed\n" % top] = "closed"
        for line, word in bad.items():
            status, said = check(good + line)
            equal(status, 1, line)
            assert word in said, (line, said)


def workers_that_stay_root_say_so():
    if os.geteuid():
        return "needs root"
    for args, loud in (([], True), (["--user", "root"], False)):
        with tempfile.TemporaryFile() as err, tempfile.TemporaryDirectory() as root:
            port = free_port()
            p = subprocess.Popen([FLASH, "--listen", "127.0.0.1:%d" % port, "--root", root, *args], stderr=err)
            try:
                def answers():
                    try:
                        return Client(port).get("/").status
                    except OSError:
                        return False
                wait_for(answers)           # before that it warns
            finally:
                p.send_signal(signal.SIGTERM)
                p.wait(60)
            err.seek(0)
            equal(b"run as root" in err.read(), loud, args)
    return None


def stalled(args, end):
    """A server whose log goes to a pipe that nobody reads."""
    r, w = os.pipe()
    s = Server("--access-log", "-", "--workers", "1", *args, config="status /status\n")
    s.write("file", "file")
    try:
        s.proc = subprocess.Popen(s.command(), stderr=s.errors, stdout=w)
        wait_for(s.accepts)
        agent = "x" * 3000
        start = time.monotonic()
        c = s.client(timeout=60)
        for _ in range(100):
            equal(c.get("/file", "User-Agent: " + agent).body, b"file", args)
        time.sleep(1.3)
        for _ in range(100):
            equal(c.get("/file", "User-Agent: " + agent).body, b"file", args)
        c.close()
        assert time.monotonic() - start < 60, args
        equal(s.stop(end), 0, args)
        os.close(w)
        w = -1
        text = b""
        while True:
            data = os.read(r, 1 << 16)
            if not data:
                break
            text += data
        assert text.endswith(b"\n") and text.count(b"\n") > 5, len(text)
        for line in text.splitlines():
            assert re.match(rb'[\d.]+ - - \[.*"$', line), line[:100]
    finally:
        os.close(r)
        if w >= 0:
            os.close(w)
        s.remove()


def a_stalled_log_pipe_stops_nobody():
    for args in ("--architecture amped", "--architecture sped", "--helper-kind processes", "--helpers 1",
                 "--architecture mt --threads 2"):
        for end in (signal.SIGTERM, signal.SIGQUIT):
            stalled(args.split(), end)


def no_line_is_lost_around_reopening_and_reloading():
    with Server("--workers", "2", config="access_log @DIR@/log\n") as s:
        s.write("file", "file")
        s.start()
        log, n, stop = os.path.join(s.dir, "log"), [0] * 4, []

        def load(k):
            while not stop:
                c = s.client()
                equal(c.get("/file?%d-%d-" % (k, n[k]), "Connection: close").status, 200)
                n[k] += 1
                c.close()
        threads = [threading.Thread(target=load, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for i in range(12):
            os.rename(log, "%s.%d" % (log, i))
            s.proc.send_signal(signal.SIGUSR1 if i % 3 else signal.SIGHUP)
            wait_for(lambda: os.path.exists(log))
            time.sleep(0.3)
        stop.append(1)
        for t in threads:
            t.join()
        equal(s.stop(signal.SIGQUIT), 0)
        text = ""
        for name in os.listdir(s.dir):
            if name.startswith("log"):
                with open(os.path.join(s.dir, name), encoding="ascii") as f:
                    text += f.read()
        seen = re.findall(r"/file\?(\d+-\d+-)", text)
        equal(len(seen), len(set(seen)), "lines twice")
        equal(len(seen), sum(n), "lines")


def lines_that_a_full_disk_did_not_take_come_later():
    with Server("--workers", "1", config="access_log @DIR@/log\nstatus /status\n",
                preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))) as s:
        s.write("file", "file")
        s.preexec = None
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        s.proc = subprocess.Popen(s.command(), stderr=s.errors, restore_signals=False, preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))))
        wait_for(s.accepts)
        c = s.client()
        for i in range(100):
            equal(c.get("/file?%03d" % i).body, b"file")
        log = os.path.join(s.dir, "log")
        wait_for(lambda: os.path.getsize(log) == 4000)
        for pid in children(s.proc.pid):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for(lambda: len(open(log, encoding="ascii").read().splitlines()) == 100)
        with open(log, encoding="ascii") as f:
            for i, line in enumerate(f):
                assert "/file?%03d " % i in line, line


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("unit", "status_of", "check", "as_the_unit_would", "stalled")])
