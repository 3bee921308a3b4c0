#!/usr/bin/env python3
# timeout: 600
"""flash as a service: reload, upgrade, limits, logs, privileges, many clients."""
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from flashtest import FLASH, STATUS, Client, Server, counters, equal, kit, main, wait_for  # noqa: E402


def a_reload_loses_nothing_and_takes_effect():
    with Server("--workers", "2", config="header X-Version one\n") as s:
        s.write("a", "a" * 100)
        s.write("big", b"b" * 3000000)
        s.start()
        idle = s.client()
        equal(idle.get("/a")["x-version"], "one")
        slow = Client(s.port)
        slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.send("GET /big HTTP/1.1\r\nHost: t\r\n\r\n")
        failed, stop = [], threading.Event()

        def load():
            while not stop.is_set():
                try:
                    equal(s.get("/a", "Connection: close").status, 200)
                except Exception as e:      # counted below
                    failed.append(repr(e))
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        for n in range(5):
            s.config = "header X-Version v%d\n" % n
            s.command()
            s.proc.send_signal(signal.SIGHUP)
            wait_for(lambda v="v%d" % n: all(s.get("/a")["x-version"] == v for _ in range(4)))
        stop.set()
        for t in threads:
            t.join()
        equal(failed, [], "failed requests")
        equal(slow.response().body, b"b" * 3000000)
        equal(idle.closed(), True)
        s.config = "nonsense on\n"
        s.command()
        s.proc.send_signal(signal.SIGHUP)
        wait_for(lambda: "former configuration" in s.stderr())
        equal(s.get("/a")["x-version"], "v4")
        equal(s.stop(), 0)


def a_new_binary_takes_over():
    with Server("--workers", "2", config="pidfile @DIR@/pid\n") as s:
        s.write("a", "a")
        s.start()
        pidfile = os.path.join(s.dir, "pid")
        old = s.proc.pid

        def pid():
            with open(pidfile, encoding="ascii") as f:
                return int(f.read() or 0)
        # It is written when the workers have said that they serve; a client may be faster.
        wait_for(lambda: os.path.exists(pidfile) and pid() == old)
        failed, stop = [], threading.Event()

        def load():
            while not stop.is_set():
                try:
                    equal(s.get("/a", "Connection: close").status, 200)
                except Exception as e:      # counted below
                    failed.append(repr(e))
        t = threading.Thread(target=load)
        t.start()
        s.proc.send_signal(signal.SIGUSR2)
        equal(s.proc.wait(2 * kit.PATIENCE), 0)
        stop.set()
        t.join()
        equal(failed, [], "failed requests")
        new = wait_for(lambda: os.path.exists(pidfile) and pid() not in (0, old) and pid())
        equal(s.get("/a").body, b"a")
        os.kill(new, signal.SIGTERM)
        wait_for(lambda: not os.path.exists(pidfile))


def a_worker_that_dies_is_replaced():
    with Server("--workers", "2") as s:
        s.write("a", "a")
        s.start()
        time.sleep(1.1)
        out = subprocess.run(["pgrep", "-P", str(s.proc.pid)], stdout=subprocess.PIPE,
                             check=True).stdout
        victim = int(out.split()[0])
        os.kill(victim, signal.SIGKILL)

        def replaced():
            now = subprocess.run(["pgrep", "-P", str(s.proc.pid)], stdout=subprocess.PIPE,
                                 check=False).stdout.split()
            return len(now) == 2 and str(victim).encode() not in now
        wait_for(replaced)
        equal(s.get("/a").body, b"a")
        assert "died of signal 9" in s.stderr()


def a_socket_from_systemd_is_used():
    with Server() as s:
        s.write("a", "a")
        listener = socket.create_server(("127.0.0.1", s.port))

        def hand_in():
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
        s.wrapper = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh"]
        s.proc = subprocess.Popen(s.command() + ["--workers", "2"], stderr=s.errors,
                                  preexec_fn=hand_in, close_fds=False)
        equal(s.get("/a").body, b"a")
        listener.close()
        equal(s.get("/a").body, b"a")
        equal(s.stop(), 0)
        equal(s.stderr(), "")


def readiness_is_notified():
    with Server() as s:
        path = os.path.join(s.dir, "notify")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(path)
        sock.settimeout(kit.PATIENCE)
        s.env = dict(os.environ, NOTIFY_SOCKET=path)
        s.start()
        assert b"READY=1" in sock.recv(300)
        s.proc.send_signal(signal.SIGHUP)
        assert re.match(rb"RELOADING=1\nMONOTONIC_USEC=\d+$", sock.recv(300))
        assert b"READY=1" in sock.recv(300)
        s.proc.send_signal(signal.SIGQUIT)
        assert b"STOPPING=1" in sock.recv(300)
        sock.close()


def late_reader_hears(workers):
    """Of a start while the queue is full. Whoever is late by more than flash's patience, of two seconds, does not."""
    with Server("--workers", workers) as s:
        s.write("a", "a")
        path = os.path.join(s.dir, "notify")
        notices, others = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        notices.bind(path)
        notices.setblocking(False)
        others.setblocking(False)
        kit.fill_queue(others, path)
        s.env = dict(os.environ, NOTIFY_SOCKET=path)
        s.start()
        equal(s.get("/a").body, b"a")           # without a master it is what serves that waits
        got = kit.read_queue(notices)
        if workers != "0":
            s.proc.send_signal(signal.SIGHUP)   # of which there is room to tell
            wait_for(lambda: got.extend(kit.read_queue(notices)) or b"RELOADING=1" in b"".join(got) and
                     b"READY=1" in b"".join(got).rpartition(b"RELOADING=1")[2])
        kit.fill_queue(others, path)
        equal(s.stop(), 0)
        notices.close()
        others.close()
        return b"READY=1" in b"".join(got).partition(b"RELOADING=1")[0]


def a_service_manager_that_reads_nothing_stops_nobody():
    """Its queue is full when flash starts, and when it stops; who reads late hears all the same."""
    late_reader_hears("0")
    assert any(late_reader_hears("2") for _ in range(5)), "nobody was told of a start"


def the_log_is_combined_or_json():
    for form in ("combined", "json"):
        with Server("--log-format", form, config="access_log @DIR@/log\n") as s:
            s.write("a", "12345")
            s.start()
            c = s.client()
            c.get('/a?q="\\', "Referer: http://r/", "User-Agent: agent \"x\"\x01")
            c.get("/none")
            c.send("broken\r\n\r\n").response()
            equal(s.stop(signal.SIGQUIT), 0)
            with open(os.path.join(s.dir, "log"), encoding="ascii") as f:
                lines = [line for line in f if "a?q" in line or "none" in line or " 400 " in line
                         or '"status":400' in line]
            equal(len(lines), 3, lines)
            if form == "json":
                first = json.loads(lines[0])
                equal((first["client"], first["status"], first["bytes"], first["request"],
                       first["agent"]),
                      ("127.0.0.1", 200, 5, 'GET /a?q="\\ HTTP/1.1', 'agent "x"\x01'))
                equal(json.loads(lines[1])["status"], 404)
            else:
                assert re.match(r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] '
                                r'"GET /a\?q=\\x22\\x5c HTTP/1\.1" 200 5 "http://r/" '
                                r'"agent \\x22x\\x22\\x01"$', lines[0]), lines[0]


def a_log_is_opened_anew_after_rotation():
    with Server("--workers", "1", config="access_log @DIR@/log\n") as s:
        s.write("a", "a")
        s.start()
        log = os.path.join(s.dir, "log")
        s.get("/a?one")
        wait_for(lambda: "one" in open(log, encoding="ascii").read())
        os.rename(log, log + ".1")
        s.proc.send_signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(log))
        s.get("/a?two")
        wait_for(lambda: "two" in open(log, encoding="ascii").read())


def mistakes_in_the_configuration_are_told():
    with Server() as s:
        for text, message in (("nonsense on", "flash.conf:1: there is no setting called nonsense"),
                              ("workers many", "flash.conf:1: workers cannot be many"),
                              ("chunk 1", "chunk cannot be 1"),
                              ("residency mlock", "residency: mlock needs transfer mmap"),
                              ("residency clock", "residency: clock needs transfer mmap"),
                              ("residency mlock\ntransfer mmap\nhelper_kind processes", "cannot mlock"),
                              ("transfer iolite\nhelper_kind processes", "only helper threads"),
                              ("residency clock\ntransfer mmap\nhelper_kind io_uring", "do not lock"),
                              ("hand_back fe\narchitecture mt", "hand_back: needs architecture"),
                              ("hand_back fe\nevents io_uring", "hand_back: needs architecture"),
                              ("schedule random", "schedule cannot be random"),
                              ("\nvhost a {\nworkers 1\n}", "flash.conf:3: workers cannot stand"),
                              ("vhost a {", "not closed"), ("}", "} without vhost"),
                              ("root /nonexistent", "document root"),
                              ("listen 1.2.3.4.5:80", "not an address"),
                              ("cgi /x /y", "cgi needs a prefix"),
                              ("error_page 200 /x", "status from 400"),
                              ("error_page 404 /nonexistent", "not a readable file"),
                              ('header "A B" c', "not a header name"),
                              ('access_log "x', "unbalanced quote")):
            s.config = text
            args = [a for a in s.command() if a not in ("--root", s.root)]
            r = subprocess.run(args + ["--check"], stderr=subprocess.PIPE, check=False, timeout=60)
            equal(r.returncode, 1, text)
            assert message in r.stderr.decode(), (text, r.stderr)
        s.config = STATUS
        r = subprocess.run(s.command() + ["--show"], stdout=subprocess.PIPE, check=True, timeout=60)
        assert b"\nworkers 1\n" in r.stdout and b"status /status" in r.stdout
        equal(subprocess.run([FLASH, "oops"], stderr=subprocess.DEVNULL, check=False).returncode, 2)


def a_number_that_is_too_large_is_not_another_number():
    with Server() as s:
        for text in ("fastcgi /a exec:/bin/true 4294967297", "fastcgi /a exec:/bin/true 3x", "listen 4294967376",
                     "error_page 4294967700 /etc/hostname", "error_page 404x /etc/hostname", "workers 4294967297",
                     "fastcgi /a 127.0.0.1:4294967376", "fastcgi /a 127.0.0.1:http", "fastcgi /a 127.0.0.1:",
                     "max_body 18446744073709551617", "max_body 17179869184g", "header_timeout 99999999999999999h"):
            s.config = text + "\n"
            args = [a for a in s.command() if a not in ("--root", s.root)]
            r = subprocess.run(args + ["--check"], stderr=subprocess.PIPE, check=False, timeout=60)
            equal((r.returncode, r.stderr.count(b"\n")), (1, 1), (text, r.stderr))


def a_configuration_is_a_text_and_what_is_said_of_it_too():
    """A directory, a device or a pipe in its place is refused, not an empty configuration, nor waited for."""
    with Server(config="status /status\n") as s:
        s.write("file", "file")
        s.start()
        path = {name: os.path.join(s.dir, name) for name in ("fifo", "binary", "nul", "escape", "large", "unread")}
        os.mkfifo(path["fifo"])
        for name, data in (("binary", bytes(range(256)) * 400), ("nul", b"workers 1\0 2\n"),
                           ("large", b"#" * (1 << 20) + b"\n"), ("escape", b"\nworkers\x1b]0;x\x07 1\n")):
            with open(path[name], "wb") as f:
                f.write(data)

        def checked(*args):
            r = subprocess.run([FLASH, "--check"] + list(args), stderr=subprocess.PIPE, check=False, timeout=60)
            assert all(32 <= c < 127 or c == 10 for c in r.stderr), (args, r.stderr[:300])
            equal((r.returncode, r.stderr.count(b"\n")), (1, 1), (args, r.stderr[:300]))
            return r.stderr.decode()

        for name, message in (("/dev/full", "not a regular file"), ("/dev/zero", "not a regular file"),
                              (s.dir, "directory"), (path["fifo"], "not a regular file"),
                              (path["binary"], "not text"), (path["nul"], "not text"),
                              (path["escape"], "behind line 1: it is not text"), (path["large"], "larger than 1 MB"),
                              (path["unread"], "No such file")):
            said = checked("--config", name)
            assert message in said, (name, said)
            if name != path["escape"]:
                said = checked("--mime-file", name)
                assert message in said, (name, said)
        for name in ("/dev/zero", path["fifo"]):
            with open(path["unread"], "w", encoding="ascii") as f:
                f.write("error_page 404 %s\n" % name)
            assert "not a readable file" in checked("--config", path["unread"]), name
        assert "\\x1b[31m" in checked("--user", "\x1b[31m\xc2\x9b")
        # So at a reload, too: it is refused, and all goes on.
        conf = os.path.join(s.dir, "flash.conf")
        for name in (path["fifo"], s.dir, path["binary"]):
            before = s.stderr().count("not reloaded")
            os.unlink(conf)
            os.symlink(name, conf)
            s.proc.send_signal(signal.SIGHUP)
            wait_for(lambda: s.stderr().count("not reloaded") > before)
            equal(s.get("/file").body, b"file", name)
            equal(s.get("/status").status, 200, name)
        with open("/dev/full", "wb") as f:
            r = subprocess.run([FLASH, "--show"], stdout=f, stderr=subprocess.PIPE, check=False, timeout=60)
        equal((r.returncode, r.stderr), (1, b"flash: standard output: No space left on device\n"))


def capabilities(pid):
    status = open("/proc/%s/status" % pid, encoding="ascii").read()
    return int(re.search(r"^CapEff:\t(\w+)", status, re.M).group(1), 16), status


def workers(s):
    return subprocess.run(["pgrep", "-P", str(s.proc.pid)], stdout=subprocess.PIPE, check=True).stdout.decode().split()


def only_what_handing_back_needs_survives_a_change_of_user():
    net_admin = 1 << 12
    if os.geteuid() or not capabilities("self")[0] & net_admin:
        return "needs root with CAP_NET_ADMIN"
    with Server("--user", "nobody", "--hand-back", "fe", config=STATUS) as s:
        os.chmod(s.dir, 0o755)
        s.write("a", "a")
        s.start()
        c = s.client()      # without the module, or without that node, it serves all itself
        for _ in range(3):
            equal(c.get("/a").body, b"a")
        c.close()
        equal(capabilities(workers(s)[0])[0], net_admin)
    return None


def what_others_put_in_place_of_the_pidfile_stays_as_it_was():
    """A link of whose directory it is leads nowhere, and a FIFO keeps nobody waiting."""
    with Server(config="pidfile @DIR@/pid\n") as s:
        pidfile, victim = os.path.join(s.dir, "pid"), os.path.join(s.dir, "victim")
        with open(victim, "w", encoding="ascii") as f:
            f.write("precious")
        os.symlink(victim, pidfile)
        s.start()
        wait_for(lambda: not os.path.islink(pidfile))
        with open(pidfile, encoding="ascii") as f:
            equal(f.read(), f"{s.proc.pid}\n")
        with open(victim, encoding="ascii") as f:
            equal(f.read(), "precious")
        equal([name for name in os.listdir(s.dir) if name.startswith("pid")], ["pid"])
    with Server(config="pidfile @DIR@/pid\n") as s:
        os.mkfifo(os.path.join(s.dir, "pid"))
        s.start()
        wait_for(lambda: "cannot write" in s.stderr())
        assert stat.S_ISFIFO(os.stat(os.path.join(s.dir, "pid")).st_mode)
        s.proc.send_signal(signal.SIGTERM)
        equal(s.proc.wait(10), 0)


def privileges_are_dropped():
    if os.geteuid():
        return "needs root"
    with Server("--user", "nobody", config=STATUS) as s:
        os.chmod(s.dir, 0o755)
        s.write("a", "a")
        os.chmod(s.write("private", "p"), 0o600)
        s.start()
        equal(s.get("/a").body, b"a")
        equal(s.get("/private").status, 403)
        held, status = capabilities(workers(s)[0])
        assert re.search(r"^Uid:\t65534\t65534\t65534", status, re.M), status
        equal(held, 0)
        assert re.search(r"^NoNewPrivs:\t1", status, re.M), status
    return None


def connections_over_the_limit_wait():
    with Server("--max-connections", "10", "--workers", "1", "--send-buffer", "32k") as s:
        s.write("a", "a")
        s.write("large", b"x" * 20000000)
        s.start()
        # All of them busy: who is idle would make room (flash_siege.py).
        clients = [s.client().send("GET /large HTTP/1.1\r\nHost: t\r\n\r\n") for _ in range(10)]
        for c in clients:
            c.exactly(100)
        late = s.client().send("GET /a HTTP/1.1\r\nHost: t\r\n\r\n")
        late.sock.settimeout(0.3)
        try:
            late.response()
            raise AssertionError("served beyond the limit")
        except socket.timeout:
            pass
        clients.pop().close()
        late.sock.settimeout(kit.PATIENCE)
        equal(late.response().status, 200)


def ten_thousand_slow_clients_delay_nobody():
    want = 10000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < want + 200:
        try:
            hard = want + 2000
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            want = soft - 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server("--workers", "1", "--header-timeout", "600s", "--defer-accept", "off",
                config=STATUS) as s:
        s.write("a", "a")
        s.start()
        slow = []
        for i in range(want):
            sock = socket.socket()
            sock.connect(("127.0.0.1", s.port))
            sock.send(b"GET /a HTTP/1.1\r\nX: %d" % i)
            slow.append(sock)
        wait_for(lambda: counters(s)["accepted"] >= want, 4 * kit.PATIENCE)
        c, times = s.client(), []
        for i in range(500):
            slow[i * 7 % want].send(b"x")
            start = time.monotonic()
            equal(c.get("/a").body, b"a")
            times.append(time.monotonic() - start)
        times.sort()
        print("# %d slow clients: median %.2f ms, 99th percentile %.2f ms" %
              (want, times[250] * 1000, times[495] * 1000))
        assert times[250] < 0.2, times[250]
        for sock in slow[:100]:
            sock.send(b"\r\nHost: t\r\n\r\n")
        for sock in slow[:100]:
            assert sock.recv(15) == b"HTTP/1.1 200 OK"
        for sock in slow:
            sock.close()
        equal(s.stop(), 0)


if __name__ == "__main__":
    main([v for k, v in list(globals().items())
          if callable(v) and getattr(v, "__module__", "") == "__main__"
          and k not in ("capabilities", "workers", "late_reader_hears")])
