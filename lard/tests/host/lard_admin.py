#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""lardd for its operator: configuration, reload, control socket, metrics, access log, stopping."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import (AS_ROOT, LARDD, Backend, cluster, content, free_port, kit, main,  # noqa: E402
                   read_answer, receive_all, until)


def check(text):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([LARDD, "-c", path, "--check"], capture_output=True, text=True,
                             timeout=20, check=False)
        return run.returncode, run.stderr.replace(path, "FILE").removeprefix("lardd: ").strip()


def check_accepts_what_is_right():
    assert check(f'listen *:80 [::]:80\ncontrol off\n{AS_ROOT}\npolicy lard/r\nt_low 10 # why not\nt_high 40\n'
                 'node a 10.0.0.1:80 weight 50 admin drain\nhealth-check http path "/a b"\n'
                 'replication_seconds 20s\nmax_outstanding 0\n') == (0, "")


def check_names_file_line_and_mistake():
    cases = {
        "listen 1.2.3.4\n": 'FILE:1: listen: "1.2.3.4" is not ADDRESS:PORT or [ADDRESS]:PORT',
        "\n\npolicy best\n": 'FILE:3: "best" is not one of wrr, lb, lard, lard/r, lc, chbl',
        "listen *:80\nt_low 70\n": "FILE: t_high must be greater than t_low",
        "t_low 0\n": 't_low must be a number from 1 to 1000000, not "0"',
        "t_low 99999999999999999999\n": "must be a number",
        "node a\n": "a node is: node NAME ADDRESS:PORT",
        "node a/b 1.2.3.4:5\n": '"a/b" is not a node name',
        "node a 1.2.3.4:99999\n": "is not ADDRESS:PORT",
        "node a 1.2.3.4:5\nnode a 1.2.3.4:6\n": "FILE:2: node a is there twice",
        "node a 1.2.3.4:5 weight\n": "a node is:",
        "node a 1.2.3.4:5 wait 3\n": 'a node has no "wait"',
        "header-timeout fast\n": 'must be a time such as 20s or 500ms, not "fast"',
        "colour red\n": 'FILE:1: unknown directive "colour"',
        'default-host "x\n': "a quotation mark is missing",
        "mode sometimes\n": "mode must be auto or proxy",
        "include /does/not/exist\n": "FILE:1: cannot read /does/not/exist: No such file",
        "": "FILE: no address to listen on",
    }
    for text, sentence in cases.items():
        status, error = check(text)
        assert status == 1 and sentence in error, (text, status, error)


def early_says_what_it_cannot_go_with():
    plain = f"listen 10.0.0.1:80\ncontrol off\n{AS_ROOT}\nearly on\n"
    assert check(plain) == (0, "")
    assert check(plain.replace("on\n", "perhaps\n"))[1] == "FILE:4: early must be on or off"
    cases = {
        "mode proxy\n": "FILE: early needs mode auto",
        "cache-size 1000000\ncache-object-max 1000\n": "FILE: early and cache-size",
        "share 10.0.0.1:9\nshare-key /etc/passwd\npeer 10.0.0.2:9\n": "FILE: early and share",
        "access-log /tmp/log\n": "FILE: early and access-log",
        "max-connections-per-address 5\n": "FILE: early and max-connections-per-address",
        "max-header 4095\n": "FILE: early needs a max-header of 4096 or more",
        "listen 10.0.0.1:443 tls client optional\ncertificate /a /b\nclient-ca /c\n": "FILE: early and client-ca",
        "miss proxy\n": "FILE: early needs a listener",
    }
    for lines, sentence in cases.items():
        status, error = check(plain + lines)
        assert status == 1 and error.startswith(sentence), (lines, status, error)
    for listen in "*:80", "[::1]:80", "10.0.0.1:80 tls", "10.0.0.1:80 redirect":
        status, error = check(plain.replace("10.0.0.1:80", listen))
        assert status == 1, (listen, error)
        assert error.startswith("FILE: early needs a listener in clear text") or " " in listen, (listen, error)
    # One that can is enough; the others' clients come as ever.
    assert check(plain + "listen *:81 [::]:82\n") == (0, "")


def early_without_a_kernel_says_so_and_serves():
    with cluster(1, "mode auto\nearly on") as lardd:
        assert lardd.node_of("/a")
        assert "is handoff.ko loaded?" in lardd.control("status")["early"], lardd.control("status")
        lardd.wait_log("event=early")


def files_that_include_each_other_are_refused():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"include {path}\n")
        run = subprocess.run([LARDD, "-c", path, "--check"], capture_output=True, text=True,
                             timeout=20, check=False)
        assert run.returncode == 1 and "include each other" in run.stderr, run.stderr


def usage_errors_exit_2():
    for arguments in (["--nonsense"], ["extra"]):
        assert subprocess.run([LARDD, *arguments], capture_output=True, timeout=20,
                              check=False).returncode == 2
    run = subprocess.run([LARDD, "--help"], capture_output=True, text=True, timeout=20, check=False)
    assert run.returncode == 0 and "--foreground" in run.stdout


def address_in_use_is_said():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "c")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"listen 127.0.0.1:{s.getsockname()[1]}\ncontrol off\n{AS_ROOT}\n")
            run = subprocess.run([LARDD, "-c", path, "--foreground"], capture_output=True,
                                 text=True, timeout=20, check=False)
            assert run.returncode == 1 and "Address already in use" in run.stderr, run.stderr


def status_says_mode_and_why():
    with cluster(2) as lardd:
        status = lardd.control("status")
        assert status["mode"] == "proxy" and status["mode_why"] == "the configuration says proxy"
        assert (status["nodes"], status["limit"], status["policy"]) == (2, 89, "lard/r"), status
        assert status["parameters_from"] == "configuration"
        names = [n["name"] for n in lardd.control("nodes")["nodes"]]
        assert names == ["be0", "be1"]


def bad_control_requests_are_answered_and_change_nothing():
    with cluster(1) as lardd:
        before = lardd.control("policy")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(lardd.socket_path)
            stream = s.makefile()
            for line in ("nonsense", "[]", "{}", '{"cmd":1}', '{"cmd":"fly"}', '{"cmd":"explain"}',
                         '{"cmd":"explain","url":"ftp://x/"}', '{"cmd":"explain","url":7}',
                         '{"cmd":"policy","policy":"best"}', '{"cmd":"policy","t_low":-1}',
                         '{"cmd":"policy","t_low":65}', '{"cmd":"policy","t_high":"9"}',
                         '{"cmd":"policy","replication_seconds":"x"}', '{"cmd":"status"',
                         '{"cmd":"status","cmd":"nodes"}', "\0", ""):
                s.sendall(line.encode() + b"\n")
                answer = json.loads(stream.readline())
                assert isinstance(answer.get("error"), str), (line, answer)
        assert lardd.control("policy") == before


def what_is_no_text_is_answered_too():
    """JSON is UTF-8: what is cut in the midst of a character is none."""
    with cluster(1) as lardd:
        for first in range(3):
            host = "a" * first + "\u20ac" * 1000
            assert host in lardd.control("explain", url=f"http://{host}/x")["target"]
            assert "a" * first in lardd.control("policy", policy=host)["error"]


def control_requests_in_pieces_and_in_heaps():
    with cluster(1) as lardd, socket.socket(socket.AF_UNIX) as s:
        s.connect(lardd.socket_path)
        stream = s.makefile()
        for byte in b'{"cmd":"status"}\n':
            s.sendall(bytes([byte]))
        assert "limit" in json.loads(stream.readline())
        threading.Thread(target=s.sendall, args=(b'{"cmd":"stats"}\n' * 2000,)).start()
        for _ in range(2000):
            assert "counters" in json.loads(stream.readline())


def endless_control_line_is_cut_off():
    with cluster(1) as lardd, socket.socket(socket.AF_UNIX) as s:
        s.connect(lardd.socket_path)
        try:
            for _ in range(100):
                s.sendall(b"x" * 10000)
            raise AssertionError("a megabyte without a newline was taken")
        except OSError:
            pass
        assert lardd.control("status")["nodes"] == 1


def policy_is_set_whole_or_not_at_all():
    with cluster(3) as lardd:
        answer = lardd.control("policy", policy="lard", t_low=10, t_high=20,
                               replication_seconds=5, max_outstanding=7)
        assert (answer["policy"], answer["t_low"], answer["t_high"], answer["max_outstanding"],
                answer["replication_seconds"]) == ("lard", 10, 20, 7, 5.0), answer
        assert "error" in lardd.control("policy", policy="wrr", t_low=20)
        assert lardd.control("policy") == answer
        assert lardd.control("policy", max_outstanding=0)["max_outstanding"] == 2 * 20 + 10 - 1


def reload_changes_nodes_and_keeps_connections():
    with cluster(2, "policy wrr") as lardd, lardd.connect() as s:
        stream = s.makefile("rb")
        s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        read_answer(stream)
        lardd.backends[0].gate.clear()
        lardd.backends[1].gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        extra = Backend("extra")
        lardd.configure(f"policy lb\nnode extra 127.0.0.1:{extra.port}", nodes=False)
        lardd.reload()
        lardd.wait_log("event=reload reloads=1")
        until(lambda: [n["name"] for n in lardd.control("nodes")["nodes"] if n["state"] == "up"]
              == ["extra"], what="only the new node")
        assert lardd.control("status")["policy"] == "lb"
        for backend in lardd.backends:
            backend.gate.set()
        assert read_answer(stream)[0] == 200            # on a node that is no longer there
        s.sendall(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(stream)[1]["x-node"] == "extra"
        extra.stop()


def bad_reload_changes_nothing():
    with cluster(2) as lardd:
        before = lardd.control("nodes"), lardd.control("policy")
        lardd.configure("colour red")
        lardd.reload()
        lardd.wait_log(r'unknown directive \"colour\"')
        assert "unknown directive" in lardd.control("reload")["error"]
        assert (lardd.control("nodes"), lardd.control("policy")) == before
        with socket.socket() as s:                      # a port that is not to be had
            s.bind(("127.0.0.1", 0))
            s.listen()
            lardd.configure(f"listen 127.0.0.1:{s.getsockname()[1]}")
            assert "in use" in lardd.control("reload")["error"]
        assert lardd.get("/size/4")[2] == content(4)


def reload_moves_listeners():
    for workers in (1, 3):
        with cluster(1, f"workers {workers}") as lardd:
            old, lardd.port = lardd.port, free_port()
            lardd.configure(f"workers {workers}")
            assert lardd.control("reload") == {"reloads": 1}
            assert lardd.get("/size/4")[2] == content(4)

            def closed(port=old):
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                    return False
                except ConnectionRefusedError:
                    return True
            until(closed, what="the old listener closed")


def no_request_fails_while_reloading():
    with cluster(2, "workers 2") as lardd:
        failed, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                try:
                    if lardd.get("/size/10")[2] != content(10):
                        failed.append("content")
                except (OSError, EOFError) as error:
                    failed.append(error)

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(30):
            assert lardd.control("reload") == {"reloads": n + 1}
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed, failed[:5]


def metrics_are_well_formed_and_scoped():
    port = free_port()
    with cluster(2, f"metrics 127.0.0.1:{port}") as lardd:
        for n in range(5):
            lardd.get(f"/x{n}")

        def scrape(target):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                return read_answer(s.makefile("rb"))

        code, fields, body = scrape("/metrics")
        assert code == 200 and fields["content-type"].startswith("text/plain; version=0.0.4")
        lines = body.decode().splitlines()
        assert "lard_requests_total 5" in lines and 'lard_node_up{node="be1"} 1' in lines
        for line in lines:
            assert line.startswith("#") or len(line.split(" ")) == 2, line
        nodes = scrape("/metrics?scope=nodes")[2].decode()
        assert "lard_node_load" in nodes and "lard_requests_total" not in nodes
        assert scrape("/other")[0] == 404


def access_log_has_a_line_a_request():
    with cluster(1) as lardd:
        path = os.path.join(lardd.directory.name, "access")
        lardd.configure(f"access-log {path} json")
        lardd.control("reload")
        lardd.get('/size/7?"q\\')
        lardd.ask(b"GET /size/6 HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n")
        os.rename(path, path + ".old")                  # as logrotate does
        lardd.process.send_signal(signal.SIGUSR1)
        until(lambda: os.path.exists(path), what="a new log")
        lardd.get("/size/8")
        until(lambda: os.path.getsize(path), what="the line in the new log")
        with open(path + ".old", encoding="utf-8") as file:
            first, second, third = [json.loads(line) for line in file]
        assert (first["target"], first["status"], first["node"], first["how"], first["why"]) == \
               ('/size/7?"q\\', 200, "be0", "proxy", "first"), first
        assert (second["target"], second["status"], second["how"]) == ("/size/6", 200, "proxy"), second
        assert (third["status"], third["how"], third["node"]) == (400, "refused", "-"), third
        assert "target" not in third, third             # it is not the last one's
        with open(path, encoding="utf-8") as file:
            assert json.loads(file.read())["target"] == "/size/8"


def stopping_finishes_what_is_under_way():
    with cluster(1) as lardd, lardd.connect() as s:
        lardd.backends[0].gate.clear()
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        lardd.process.send_signal(signal.SIGTERM)
        lardd.wait_log("event=stopping")

        def refused():
            try:
                lardd.connect().close()
                return False
            except ConnectionRefusedError:
                return True
        until(refused, what="no listener")
        lardd.backends[0].gate.set()
        assert b"200 OK" in receive_all(s)
        assert lardd.process.wait(kit.PATIENCE) == 0


def control_and_signals_are_there_to_the_end():
    """Whichever worker has what is still under way, and worker 0 is as likely as the other."""
    for _ in range(4):
        with cluster(1, "workers 2") as lardd, lardd.connect() as s:
            lardd.backends[0].gate.clear()
            s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
            until(lambda d=lardd: d.load() == 1, what="load 1")
            lardd.process.send_signal(signal.SIGTERM)
            lardd.wait_log("event=stopping")
            for _ in range(3):
                assert lardd.control("status")["pid"] == lardd.process.pid
            lardd.process.send_signal(signal.SIGTERM)
            assert lardd.process.wait(kit.PATIENCE) == 0
            lardd.backends[0].gate.set()


def takeover_refuses_no_connection_and_finishes_the_old():
    with cluster(2, "workers 2\nstop-timeout 10m") as lardd, lardd.connect() as held:
        for backend in lardd.backends:
            backend.gate.clear()
        held.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        until(lambda: lardd.load() == 1, what="load 1")
        failed, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                try:
                    if lardd.get("/size/10")[2] != content(10):
                        failed.append("content")
                except (OSError, EOFError) as error:
                    failed.append(error)

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        first = lardd.take_over()
        second = lardd.take_over()
        assert second.wait(kit.PATIENCE) == 0
        assert first.poll() is None, "it still serves what it has"
        stop.set()
        for thread in threads:
            thread.join()
        assert not failed, failed[:5]
        for backend in lardd.backends:
            backend.gate.set()
        assert b"200 OK" in receive_all(held)
        assert first.wait(kit.PATIENCE) == 0
        assert os.path.exists(lardd.socket_path), "the old ones leave the new one's socket alone"
        assert lardd.get("/size/4")[2] == content(4)


def takeover_of_nobody_fails():
    with cluster(1) as lardd:
        path = os.path.join(lardd.directory.name, "other.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"listen 127.0.0.1:{free_port()}\ncontrol {lardd.directory.name}/none\n")
        run = subprocess.run([LARDD, "-c", path, "--foreground", "--takeover"],
                             capture_output=True, text=True, timeout=20, check=False)
        assert run.returncode == 1 and "cannot take over" in run.stderr, run


def service_manager_is_told():
    with cluster(1) as lardd, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        path = os.path.join(lardd.directory.name, "notify")
        notices.bind(path)
        notices.settimeout(kit.PATIENCE)
        lardd.process.send_signal(signal.SIGTERM)
        assert lardd.process.wait(kit.PATIENCE) == 0
        lardd.process = subprocess.Popen([LARDD, "-c", lardd.config_path, "--foreground"],
                                         stderr=lardd.log_file,
                                         env={**os.environ, "NOTIFY_SOCKET": path})
        assert notices.recv(1000) == b"READY=1"
        lardd.reload()
        assert notices.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert notices.recv(1000) == b"READY=1"
        lardd.process.send_signal(signal.SIGTERM)
        assert notices.recv(1000) == b"STOPPING=1"


def hears_of_a_reload(lardd, others, path, notices):
    """Does who reads his full queue while lardd waits for that?"""
    before = lardd.control("status")["reloads"]
    kit.fill_queue(others, path)
    lardd.reload()
    time.sleep(0.3)
    got = kit.read_queue(notices)
    until(lambda: lardd.control("status")["reloads"] > before, what="the reload")   # asked when all has been said
    return b"READY=1" in got + kit.read_queue(notices)


def a_service_manager_that_reads_nothing_stops_nobody():
    """Its queue is full when lardd starts, is asked for a reload and stops; who reads late hears all the same."""
    with cluster(1) as lardd, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others:
        path = os.path.join(lardd.directory.name, "notify")
        notices.bind(path)
        notices.setblocking(False)
        others.setblocking(False)
        lardd.process.send_signal(signal.SIGTERM)
        assert lardd.process.wait(kit.PATIENCE) == 0
        kit.fill_queue(others, path)
        os.environ["NOTIFY_SOCKET"] = path
        try:
            lardd.start()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        lardd.wait_nodes(1)
        assert lardd.get("/size/5")[2] == content(5)
        assert b"READY=1" not in kit.read_queue(notices)     # nobody could be told
        # Late, but within its patience of two seconds, unless this machine sleeps: then another time.
        assert any(hears_of_a_reload(lardd, others, path, notices) for _ in range(5)), "nobody was told of any"
        kit.fill_queue(others, path)
        lardd.process.send_signal(signal.SIGTERM)
        assert lardd.process.wait(kit.PATIENCE) == 0


def background_start_reports_its_success():
    with tempfile.TemporaryDirectory() as directory:
        path, port = os.path.join(directory, "c"), free_port()
        for lines, status in ((f"listen 127.0.0.1:{port}\ncontrol {directory}/s", 0),
                              (f"listen 127.0.0.1:{port}\ncontrol {directory}/no/such/s", 1)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{lines}\n{AS_ROOT}\n")
            run = subprocess.run([LARDD, "-c", path], stderr=subprocess.DEVNULL, timeout=20,
                                 check=False)
            assert run.returncode == status, run
            if status == 0:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(directory + "/s")
                    s.sendall(b'{"cmd":"status"}\n')
                    os.kill(json.loads(s.makefile().readline())["pid"], signal.SIGTERM)
                until(lambda: not os.path.exists(directory + "/s"), what="its end")


if __name__ == "__main__":
    sys.exit(main([check_accepts_what_is_right, check_names_file_line_and_mistake,
                   early_says_what_it_cannot_go_with, early_without_a_kernel_says_so_and_serves,
                   files_that_include_each_other_are_refused, usage_errors_exit_2,
                   address_in_use_is_said, status_says_mode_and_why,
                   bad_control_requests_are_answered_and_change_nothing, what_is_no_text_is_answered_too,
                   control_requests_in_pieces_and_in_heaps, endless_control_line_is_cut_off,
                   policy_is_set_whole_or_not_at_all, reload_changes_nodes_and_keeps_connections,
                   bad_reload_changes_nothing, reload_moves_listeners,
                   no_request_fails_while_reloading, metrics_are_well_formed_and_scoped,
                   access_log_has_a_line_a_request, stopping_finishes_what_is_under_way,
                   control_and_signals_are_there_to_the_end,
                   takeover_refuses_no_connection_and_finishes_the_old, takeover_of_nobody_fails,
                   service_manager_is_told, a_service_manager_that_reads_nothing_stops_nobody,
                   background_start_reports_its_success]))
