#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
"""An exporter's machine loses its power between the acknowledgement of writes and the flush: two guests,
one of which is killed and started anew."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TOP / "tools/testing/lib"))
from kit import bail, wait                              # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("cluster", str(TOP / "tools/vm/cluster"))
SPEC = importlib.util.spec_from_loader("cluster", LOADER)
cluster = importlib.util.module_from_spec(SPEC)
sys.dont_write_bytecode = True
LOADER.exec_module(cluster)

HERE = TOP / "card/tests/poweroff"
HOSTS = "10.77.0.1:exporter 10.77.0.2:client"


class Guest:
    """A guest at a port of the switch."""

    def __init__(self, switch, port, name, results, command, *options):
        # Of a guest that was killed the socket is left.
        (switch.directory / f"guest{port}").unlink(missing_ok=True)
        self.log = open(results / f"{name}.log", "wb")
        self.process = subprocess.Popen(
            [TOP / "tools/vm/guest", "--cpus", "1", "--timeout", "1100", "--name", name, "--results", results,
             "--log", results / f"{name}.console", "--net", switch.netdev(port),
             "--address", f"10.77.0.{port + 1}/24", "--env", f"FLT_CLUSTER={HOSTS}", *options, "--",
             "bash", "-c", command], stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)

    def stop(self):
        """As if its plug were pulled: nothing is said to the guest."""
        self.process.terminate()
        self.process.wait()
        self.log.close()


def disk(work):
    path = work / "disk.img"
    with open(path, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
    return path


def follow(results, client, start):
    """The exporter's two lives, until the client has ended."""
    first = start("first")
    try:
        wait(lambda: (results / "said.acknowledged").exists() or client.process.poll() is not None, 500, .1)
    finally:
        first.stop()
    (results / "said.gone").touch()
    if client.process.poll() is not None:
        return
    time.sleep(1)
    second = start("second")
    try:
        client.process.wait(500)
    finally:
        second.stop()


def main():
    (TOP / "build").mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="poweroff.", dir=TOP / "build"))
    results = work / "results"
    results.mkdir()
    image = disk(work)
    with tempfile.TemporaryDirectory(prefix="flotilla-poweroff-") as directory:
        switch = cluster.Switch(Path(directory), 2)
        switch.start()

        def start(boot):
            return Guest(switch, 0, "exporter", results, f"bash {HERE}/exporter.sh", "--env", f"FLT_BOOT={boot}",
                         "--qemu", f"-drive file={image},format=raw,if=virtio")
        client = Guest(switch, 1, "client", results, f"python3 {HERE}/client.py")
        try:
            follow(results, client, start)
        finally:
            client.stop()
    said = (results / "client.log").read_text(errors="replace")
    print(said, end="")
    if "1..4" not in said or client.process.returncode:
        print("# " + (results / "exporter.log").read_text(errors="replace").replace("\n", "\n# "))
    if "1..4" not in said:
        bail("the client did not come to its claims")
    shutil.rmtree(work, ignore_errors=True)
    return client.process.returncode


if __name__ == "__main__":
    os.chdir(TOP)
    sys.exit(main())
