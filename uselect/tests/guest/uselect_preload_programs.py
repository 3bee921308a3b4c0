#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# cpus: 2
# long: both two minutes: ten to twenty seconds for each of nine programs
"""Servers in other languages serve with the preload library as without it: the same bytes, and their children, too.

What the machine lacks is skipped: `make deps` gets it, by tests/lib/programs/get. USELECT_PRELOAD names another one.
"""
import functools
import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(TOP, "splice", "tests", "lib"))
sys.path.insert(1, os.path.join(TOP, "kmod", "tests", "lib"))
from ssp import load, unload, wait_for  # noqa: E402
import kit  # noqa: E402

LIBRARY = os.environ.get("USELECT_PRELOAD") or os.path.realpath(os.path.join(TOP, "build/lib/libuselect-preload.so"))
SOURCES = os.path.join(TOP, "uselect", "tests", "lib", "programs")
PROGRAMS = os.environ["FLT_PROGRAMS"]
PORT = 8100
CLIENTS = 8
ROUNDS = kit.rounds(25, 5)


def got(*path):
    return os.path.join(PROGRAMS, *path)


def node_24():
    """Wherever the wheel has put it."""
    for place, _, names in os.walk(PROGRAMS):
        if "node" in names and place.endswith("/bin"):
            return os.path.join(place, "node")
    return got("node")


# name: the file that must be there, and the command
SERVERS = {
    "asyncio": (shutil.which("python3"), ["python3", f"{SOURCES}/server.py", "PORT"]),
    "uvloop": (got("bin/python3"), [got("bin/python3"), f"{SOURCES}/server.py", "PORT", "uvloop"]),
    "granian": (got("bin/granian"), [got("bin/granian"), "--interface", "asgi", "--port", "PORT", "--no-ws",
                                     "--working-dir", SOURCES, "server:app"]),
    "granian, many threads": (got("bin/granian"), [
        got("bin/granian"), "--interface", "asgi", "--port", "PORT", "--no-ws", "--runtime-mode", "mt",
        "--runtime-threads", "2", "--working-dir", SOURCES, "server:app"]),
    "node of the system": (shutil.which("node"), ["node", f"{SOURCES}/server.js", "PORT"]),
    "node 24": (node_24(), [node_24(), f"{SOURCES}/server.js", "PORT"]),
    "node 24, io_uring": (node_24(), ["env", "UV_USE_IO_URING=1", node_24(), f"{SOURCES}/server.js", "PORT"]),
    "go": (got("server-go"), [got("server-go"), "PORT"]),
    "java": (got("Server.class") if shutil.which("java") else None,
             ["java", "-Xint", "-cp", PROGRAMS, "Server", "PORT"]),
}


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


def client(port, number, faults):
    """Some connections last, some are for one request; bodies from nothing to more than a buffer."""
    lasting = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for i in range(ROUNDS):
        conn = lasting if i % 3 else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        size = (0, 1, 1000, 70000, 3, 300000)[(i + number) % 6]
        path, wanted = (f"/{size}", b"x" * size) if i % 12 != 5 else ("/child", b"child\n")
        try:
            conn.request("GET", path)
            body = conn.getresponse().read()
            if body != wanted:
                faults.append(f"{path}: {len(body)} bytes: {body[:60]}")
        except (OSError, http.client.HTTPException) as why:
            faults.append(f"client {number}, request {i}, {path}: {why!r}")
            return
        if conn is not lasting:
            conn.close()
    lasting.close()


def serves(name, library=LIBRARY):
    global PORT
    needed, command = SERVERS[name]
    if not needed or not os.path.exists(needed):
        raise kit.Skip(f"no {needed or command[0]} here: uselect/tests/lib/programs/get gets it")
    PORT += 1
    command = [str(PORT) if word == "PORT" else word for word in command]
    log = f"/tmp/{name.replace(' ', '-')}.log"
    with open(log, "w", encoding="utf-8") as out, subprocess.Popen(
            command, env=dict(os.environ, LD_PRELOAD=library), stdout=out, stderr=out,
            start_new_session=True) as server:
        try:
            wait_for(f"{name} to listen", lambda: server.poll() is not None or listens(PORT))
            faults = []
            clients = [threading.Thread(target=client, args=(PORT, i, faults)) for i in range(CLIENTS)]
            for one in clients:
                one.start()
            for one in clients:
                one.join()
            if server.poll() is not None:
                faults.append(f"it ended with {server.returncode}")
        finally:
            os.killpg(server.pid, 9)
    with open(log, encoding="utf-8", errors="replace") as out:
        said = out.read()
    os.unlink(log)
    if faults:
        raise AssertionError("\n".join(faults[:5] + [said[-1000:]]))


if __name__ == "__main__":
    if not os.path.exists(LIBRARY):
        sys.exit(f"no {LIBRARY}")
    load("flotilla", "uselect")
    sys.exit(kit.run([(f"{name} serves", functools.partial(serves, name)) for name in SERVERS], last=[
        ("the_module_unloads", lambda: wait_for("rmmod uselect", lambda: unload("uselect")))]))
