#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Whom lardd becomes, what it may do then, what --check finds, and the shipped unit with its configuration."""

import contextlib
import ctypes
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, TOP, cluster, content, free_port, kit, main, until  # noqa: E402
from secure import make_certificate     # noqa: E402

CAP_CHOWN, CAP_SETGID, CAP_SETUID, CAP_NET_BIND_SERVICE, CAP_NET_ADMIN = 0, 6, 7, 10, 12
CAPS = {"CAP_CHOWN": CAP_CHOWN, "CAP_SETGID": CAP_SETGID, "CAP_SETUID": CAP_SETUID,
        "CAP_NET_BIND_SERVICE": CAP_NET_BIND_SERVICE, "CAP_NET_ADMIN": CAP_NET_ADMIN}
KEPT = 1 << CAP_NET_BIND_SERVICE | 1 << CAP_NET_ADMIN


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def rights(pid):
    """All its uids, and its capabilities in every set but the bounding one; of all threads."""
    uids, caps = set(), set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        status = status_of(f"{pid}/task/{thread}")
        uids |= {int(uid) for uid in status["Uid"].split()}
        assert status["NoNewPrivs"] == "1" or 0 in uids
        caps.add(tuple(int(status[which], 16) for which in ("CapPrm", "CapEff", "CapInh", "CapAmb")))
    return uids, caps


def nobody():
    """Whom it becomes by itself."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("flotilla").pw_uid
    return pwd.getpwnam("nobody").pw_uid


def opened(lardd):
    """Its directory may be used by anybody, as /run and /etc may."""
    os.chmod(lardd.directory.name, 0o755)


def by_default(lardd, *lines):
    lardd.configure("user root\n" + "\n".join(lines))   # so that it is not added, and then it goes
    with open(lardd.config_path, encoding="utf-8") as file:
        text = file.read().replace("user root\n", "")
    with open(lardd.config_path, "w", encoding="utf-8") as file:
        file.write(text)


def restarted(lardd, *lines, preexec=None):
    """Anew, with lines of its own and no user named."""
    lardd.process.send_signal(signal.SIGTERM)
    assert lardd.process.wait(kit.PATIENCE) == 0
    by_default(lardd, *lines)
    lardd.start(preexec=preexec)
    lardd.wait_nodes(len(lardd.backends))


def low_port():
    for port in range(1023, 600, -1):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port below 1024 is free")


def root_becomes_nobody_and_can_still_reload():
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1) as lardd:
        opened(lardd)
        log = os.path.join(lardd.directory.name, "access")
        restarted(lardd, "workers 3", f"access-log {log}")
        uids, caps = rights(lardd.process.pid)
        assert uids == {nobody()} and caps == {(KEPT, KEPT, 0, 0)}, (uids, caps)
        assert os.stat(log).st_uid == nobody()
        assert not set(status_of(lardd.process.pid)["Groups"].split()) & {"0"}
        assert "event=root" not in lardd.log()
        lardd.port = low_port()
        by_default(lardd, "workers 3", f"access-log {log}")
        assert lardd.control("reload") == {"reloads": 1}
        for _ in range(6):
            assert lardd.get("/size/4")[2] == content(4)
        os.rename(log, log + ".1")                      # as logrotate does, with "create"
        with open(log, "wb"):
            os.chown(log, nobody(), -1)
        lardd.process.send_signal(signal.SIGUSR1)
        until(lambda: lardd.get("/size/4") and os.path.getsize(log))
        # More workers on the address that the reload brought: its sockets must have one owner.
        by_default(lardd, "workers 5", f"access-log {log}")
        assert lardd.take_over().wait(kit.PATIENCE) == 0
        assert rights(lardd.process.pid) == ({nobody()}, {(KEPT, KEPT, 0, 0)})
        for _ in range(10):
            assert lardd.get("/size/4")[2] == content(4)


def dumps(lardd):
    """Whether it leaves a core file when it dies."""
    lardd.process.send_signal(signal.SIGABRT)     # which no shell has it ignore
    status = os.waitpid(lardd.process.pid, 0)[1]
    assert os.WIFSIGNALED(status), status
    lardd.process.poll()                # it is gone, whoever heard of it
    return os.WCOREDUMP(status)


def keys_of_tls_are_in_no_core_file():
    """Whenever TLS comes, and whomever root becomes; without it there is one, for who looks for a mistake."""
    with cluster(1) as lardd, tempfile.TemporaryDirectory() as place:
        opened(lardd)
        os.chmod(place, 0o777)
        chain, key = make_certificate(lardd.directory.name, "one.test")
        if not os.geteuid():
            os.chown(key, nobody(), -1)
        tls = f"listen 127.0.0.1:{free_port()} tls\ncertificate {chain} {key}"

        def unlimited():
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
            os.chdir(place)

        restarted(lardd, preexec=unlimited)
        if not dumps(lardd):
            raise kit.Skip("nothing leaves a core file here")
        for before, after in ((tls, None), ("", tls), (tls, ""), ("user root\n" * (not os.geteuid()) + tls, None)):
            by_default(lardd, before)
            lardd.start(preexec=unlimited)
            if after is not None:
                by_default(lardd, after)
                assert lardd.control("reload") == {"reloads": 1}
            assert not dumps(lardd), (before, after)
        by_default(lardd)
        lardd.start()


def what_a_reload_cannot_read_is_said_at_start():
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1) as lardd:
        restarted(lardd)                                # its directory is root's alone
        lardd.wait_log("level=warn event=config")
        assert "Permission denied" in lardd.control("reload")["error"]
        assert lardd.get("/size/4")[2] == content(4)
        opened(lardd)
        assert lardd.control("reload") == {"reloads": 1}
        os.unlink(lardd.socket_path)


def it_keeps_what_it_needs_and_no_more():
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1) as lardd:
        opened(lardd)
        restarted(lardd, "mode proxy", "splice-min 0")
        bind = 1 << CAP_NET_BIND_SERVICE
        assert rights(lardd.process.pid)[1] == {(bind, bind, 0, 0)}
        by_default(lardd, "mode auto")
        assert lardd.control("reload") == {"reloads": 1}
        lardd.wait_log("takes a restart")


def a_user_is_named():
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1, "user www-data") as lardd:
        assert rights(lardd.process.pid)[0] == {pwd.getpwnam("www-data").pw_uid}
        opened(lardd)
        lardd.configure("user games")
        assert lardd.control("reload") == {"reloads": 1}
        lardd.wait_log("change with a restart")
    with cluster(1, "user root") as lardd:
        assert rights(lardd.process.pid)[0] == {0}
        assert "event=root" not in lardd.log()
    for user, why in (("no-such-user-here", "there is none"),):
        assert why in started("user " + user)
    assert "only root can become another" in started("user games", lambda: os.setuid(65534))


def started(line, preexec=None):
    """What one says that cannot start."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        path = os.path.join(directory, "c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"listen 127.0.0.1:{free_port()}\ncontrol {directory}/s\n{line}\n")
        binary = shutil.copy(LARDD, directory)
        run = subprocess.run([binary, "-c", path, "--foreground"], capture_output=True, text=True, timeout=20,
                             check=False, preexec_fn=preexec)
        assert run.returncode == 1, run
        return run.stderr


def without(*caps):
    """In the child: it will not have them."""
    libc = ctypes.CDLL(None, use_errno=True)

    def drop():
        for cap in caps:
            assert not libc.prctl(24, cap, 0, 0, 0)
    return drop


def one_that_has_to_stay_root_says_so():
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1) as lardd:
        opened(lardd)
        restarted(lardd, preexec=without(CAP_SETUID))
        assert rights(lardd.process.pid)[0] == {0}
        lardd.wait_log("level=warn event=root")
        assert lardd.get("/size/4")[2] == content(4)
        assert "user root" in lardd.log()
    assert "cannot become games" in started("user games", without(CAP_SETUID))


def ask_as(uid, path, lines):
    """Answers of the control socket to that user."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(10)
            s.connect(path)
            for line in lines:
                s.sendall(json.dumps(line).encode() + b"\n")
                _, fds, _, _ = socket.recv_fds(s, 0, 0)
                data, fds = b"", []
                while not data.endswith(b"\n"):
                    more, got, _, _ = socket.recv_fds(s, 65536, 10)
                    if not more:
                        break
                    data, fds = data + more, fds + got
                os.write(w, json.dumps([len(fds), json.loads(data)]).encode() + b"\n")
        os._exit(0)
    os.close(w)
    with os.fdopen(r, encoding="ascii") as file:
        answers = [json.loads(line) for line in file]
    os.waitpid(pid, 0)
    return answers


LOOK = [{"cmd": "status"}, {"cmd": "nodes"}, {"cmd": "stats"}, {"cmd": "policy"}, {"cmd": "explain", "url": "/x"}]
CHANGE = [{"cmd": "reload"}, {"cmd": "policy", "policy": "wrr"}, {"cmd": "handover"}, {"cmd": "taken"}]


def may_only_look(uid, lardd):
    answers = ask_as(uid, lardd.socket_path, LOOK + CHANGE)
    assert len(answers) == len(LOOK + CHANGE), answers
    for (fds, answer), line in zip(answers, LOOK + CHANGE):
        assert fds == 0 and ("error" in answer) == (line in CHANGE), (line, answer)
    assert "only root" in answers[-1][1]["error"] and "only root" in answers[-4][1]["error"]


def only_root_and_the_starter_change_anything():
    """Even where the socket's mode lets everybody in."""
    if os.geteuid():
        raise kit.Skip("needs root")
    with cluster(1) as lardd:
        opened(lardd)
        restarted(lardd)
        os.chmod(lardd.socket_path, 0o666)
        for uid in (pwd.getpwnam("games").pw_uid, nobody()):    # who it is now has not started it either
            may_only_look(uid, lardd)
        status = lardd.control("status")
        assert status["policy"] == "lard/r" and status["reloads"] == 0, status
        assert lardd.control("policy", policy="wrr")["policy"] == "wrr"
        assert lardd.control("reload") == {"reloads": 1}


def unknown_users_are_not_the_starter():
    """In a user namespace everybody who has no number there is called as who started this one."""
    if os.geteuid():
        raise kit.Skip("needs root")
    if subprocess.run(("unshare", "--user", "true"), capture_output=True, check=False).returncode:
        raise kit.Skip("there are no user namespaces here")
    with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
        unknown = int(file.read())
    libc = ctypes.CDLL(None, use_errno=True)

    def become():
        assert not libc.unshare(0x10000000)
        with open("/proc/self/uid_map", "w", encoding="ascii") as file:
            file.write(f"{unknown} 0 1")
    with cluster(1) as lardd:
        opened(lardd)
        restarted(lardd, preexec=become)
        with open(f"/proc/{lardd.process.pid}/uid_map", encoding="ascii") as file:
            assert file.read().split() == [str(unknown), "0", "1"]
        os.chmod(lardd.socket_path, 0o666)
        for uid in (pwd.getpwnam("games").pw_uid, 0):   # 0 is who started it, and nobody can tell
            may_only_look(uid, lardd)
        status = lardd.control("status")
        assert status["policy"] == "lard/r" and status["reloads"] == 0, status


def check(text, preexec=None):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        os.chmod(file.name, 0o644)
        run = subprocess.run([LARDD, "-c", file.name, "--check"], capture_output=True, text=True, timeout=20,
                             check=False, preexec_fn=preexec)
    return run.returncode, run.stderr


def check_finds_what_is_missing():
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o777)
        good = f"listen 127.0.0.1:80\ncontrol {top}/run/s\n"
        assert check(good + f"access-log {top}/log\n") == (0, "")
        assert not os.listdir(top), "it made something"
        with open(os.path.join(top, "closed.log"), "wb"):
            os.chmod(os.path.join(top, "closed.log"), 0o600)
        bad = {"user no-such-user-here\n": "no-such-user-here", f"access-log {top}/none/log\n": "access-log",
               f"access-log {top}\n": "directory", f"control {top}/none/such/s\n": "control"}
        if not os.geteuid():
            bad[f"access-log {top}/closed.log\n"] = "Permission denied"
            bad[f"access-log {top}/closed.log\nuser games\n"] = "Permission denied"
        for line, word in bad.items():
            status, said = check(good + line)
            assert status == 1 and word in said, (line, status, said)
        if not os.geteuid():
            path = os.path.join(top, "closed.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(good)
            os.chmod(path, 0o600)
            run = subprocess.run([LARDD, "-c", path, "--check"], capture_output=True, text=True, check=False)
            assert run.returncode == 1 and "configuration" in run.stderr, run


def the_control_socket_has_its_mode_from_the_start():
    """Whatever the umask is."""
    for mode in (0o600, 0o640, 0o666):
        with tempfile.TemporaryDirectory() as top:
            path = os.path.join(top, "control")
            with open(os.path.join(top, "conf"), "w", encoding="utf-8") as file:
                file.write(f"listen 127.0.0.1:{free_port()}\nmode proxy\ncontrol {path} {mode:04o}\n"
                           f"node a 127.0.0.1:{free_port()}\n")
            with subprocess.Popen([LARDD, "-c", file.name, "--foreground"], stderr=subprocess.DEVNULL,
                                  umask=0o077) as lardd:
                try:
                    until(lambda path=path: os.path.exists(path), what="its control socket")
                    assert os.stat(path).st_mode & 0o7777 == mode, oct(os.stat(path).st_mode)
                finally:
                    lardd.terminate()


def unit():
    """The settings of the unit's [Service]."""
    found = {}
    with open(os.path.join(TOP, "lard/lardd.service"), encoding="ascii") as file:
        for line in file:
            if "=" in line and not line.startswith("#"):
                name, value = line.rstrip("\n").split("=", 1)
                found.setdefault(name, []).append(value)
    return found


def as_the_unit_would(settings, files):
    """In the child: the capabilities that systemd leaves it, and its /etc, /run and log directories."""
    bounding = {CAPS[cap] for cap in settings["CapabilityBoundingSet"][0].split()}
    libc = ctypes.CDLL(None, use_errno=True)

    def become():
        assert not libc.unshare(0x00020000)
        assert not libc.mount(b"none", b"/", None, 1 << 14 | 1 << 18, None)
        for source, target in (("etc", "/etc/flotilla"), ("run", "/run/flotilla"), ("log", "/var/log/flotilla")):
            os.makedirs(target, exist_ok=True)
            assert not libc.mount(os.path.join(files, source).encode(), target.encode(), None, 4096, None)
        libc.prctl(38, 1, 0, 0, 0)
        for cap in range(64):
            if cap not in bounding:
                libc.prctl(24, cap, 0, 0, 0)
    return become


@contextlib.contextmanager
def by_the_unit(settings, top, text):
    """lardd as the unit starts it with this configuration, after its checks; its standard error."""
    with open(os.path.join(top, "etc/lardd.conf"), "w", encoding="ascii") as file:
        file.write(text)
    become = as_the_unit_would(settings, top)

    def command(which, n=0):
        program, *rest = settings[which][n].split()
        assert program.endswith("/bin/lardd"), program
        return [LARDD, *rest]
    subprocess.run(command("ExecStartPre"), check=True, preexec_fn=become, timeout=20)
    with open(os.path.join(top, "err"), "w+", encoding="ascii") as err:
        process = subprocess.Popen(command("ExecStart"), preexec_fn=become, stderr=err)
        try:
            until(lambda: os.path.exists(os.path.join(top, "run/lardd.sock")) or process.poll() is not None)
            until(lambda: "event=start" in open(err.name, encoding="ascii").read() or process.poll() is not None)
            assert process.poll() is None, open(err.name, encoding="ascii").read()
            assert rights(process.pid) == ({nobody()}, {(KEPT, KEPT, 0, 0)})
            yield process
            subprocess.run(command("ExecReload"), check=True, preexec_fn=become, timeout=20)
            process.send_signal(signal.SIGHUP)
            until(lambda: "reloads=1" in open(err.name, encoding="ascii").read())
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(kit.PATIENCE)
        assert status == 0, status


@contextlib.contextmanager
def directories():
    """Those that systemd makes, in one that is for all to look into."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        for name in ("etc", "run", "log"):
            os.mkdir(os.path.join(top, name))
            os.chmod(os.path.join(top, name), 0o755)
        yield top


def the_unit_starts_with_the_shipped_configuration():
    if os.geteuid():
        raise kit.Skip("needs root")
    settings = unit()
    assert settings["RuntimeDirectory"] == settings["LogsDirectory"] == ["flotilla"]
    with directories() as top:
        port = free_port()
        with open(os.path.join(TOP, "lard/lardd.conf"), encoding="ascii") as file:
            text = file.read()
        assert re.search(r"^listen \*:80$", text, re.M), text
        # As shipped, but for the port, which may be taken here; with the log that it suggests.
        text = text.replace("listen *:80", f"listen 127.0.0.1:{port}").replace("# access-log", "access-log")
        assert "access-log /var/log/flotilla/" in text
        with by_the_unit(settings, top, text), socket.create_connection(("127.0.0.1", port), timeout=10) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            assert b" 503 " in s.recv(1000), "there is no node yet"
        assert os.path.getsize(os.path.join(top, "log/access.log")) > 0


def the_unit_starts_with_keys_that_only_its_user_may_read():
    """Its root has no right to pass by modes, and its check wants what a reload can read."""
    if os.geteuid():
        raise kit.Skip("needs root")
    with directories() as top:
        port, etc = free_port(), os.path.join(top, "etc")
        key = make_certificate(etc, "one.test")[1]
        tickets = os.path.join(etc, "tickets")
        with open(tickets, "w", encoding="ascii") as file:
            file.write("0123456789" * 16 + "\n")
        for path in (key, tickets):
            os.chmod(path, 0o600)
            os.chown(path, nobody(), -1)
        with by_the_unit(unit(), top, f"listen 127.0.0.1:{port} tls\nticket-keys /etc/flotilla/tickets\n"
                         "certificate /etc/flotilla/one.test.pem /etc/flotilla/one.test.key\n"):
            context = ssl.create_default_context(cafile=os.path.join(etc, "one.test.pem"))
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            with socket.create_connection(("127.0.0.1", port), timeout=10) as tcp, \
                    context.wrap_socket(tcp, server_hostname="one.test") as s:
                s.sendall(b"GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")
                assert b" 503 " in s.recv(1000), "there is no node yet"


if __name__ == "__main__":
    sys.exit(main([root_becomes_nobody_and_can_still_reload, keys_of_tls_are_in_no_core_file,
                   what_a_reload_cannot_read_is_said_at_start,
                   it_keeps_what_it_needs_and_no_more, a_user_is_named,
                   one_that_has_to_stay_root_says_so, only_root_and_the_starter_change_anything,
                   unknown_users_are_not_the_starter,
                   the_control_socket_has_its_mode_from_the_start, check_finds_what_is_missing,
                   the_unit_starts_with_the_shipped_configuration,
                   the_unit_starts_with_keys_that_only_its_user_may_read]))
