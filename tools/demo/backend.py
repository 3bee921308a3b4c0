# SPDX-License-Identifier: GPL-2.0
"""A back-end: a filesystem image of its own, a bounded page cache, a web server, modules' view."""
import os
import shutil
from collections import Counter
from pathlib import Path

from network import SERVICE, run

WORK = Path("/tmp/demo")
# HTTPS comes to it in clear text, for the kernel encrypts: no other request may.
TLS_PORT = 8443
CGROUPS = Path("/sys/fs/cgroup")
NGINX = """worker_processes 1;
error_log {work}/error.log;
pid {work}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    include /etc/nginx/mime.types;
    log_format peer $remote_addr;
    access_log {work}/access.log peer;
    sendfile on;
    tcp_nopush on;
    add_header X-Node {name};
    client_body_temp_path {work}/body; proxy_temp_path {work}/proxy;
    fastcgi_temp_path {work}/fastcgi; uwsgi_temp_path {work}/uwsgi; scgi_temp_path {work}/scgi;
    server {{
        listen 80 reuseport backlog=1024;
        listen {service}:{tls_port} reuseport backlog=1024;
        root {root};
    }}
}}
"""
# Its own cache of small files is off: the page cache, which is bounded and measured, is to hold all.
FLASH = """listen 80
listen {service}:{tls_port}
root {root}
header X-Node {name}
memory_cache 0
access_log {work}/access.log
"""


class Backend:
    """One node. The page cache is kept an inode, so a filesystem of its own keeps it apart."""

    def __init__(self, ns, server, image):
        self.ns, self.name, self.server = ns, ns.name, server
        self.work = WORK / self.name
        self.root = self.work / "www"
        self.group = CGROUPS / f"demo-{self.name}"
        self.root.mkdir(parents=True)
        shutil.copyfile(image, self.work / "disk")
        self.loop = run("losetup", "--find", "--show", "--direct-io=off",
                        str(self.work / "disk")).strip()
        run("mount", "-t", "ext4", "-o", "ro,noatime", self.loop, str(self.root))
        ns.hold_service_address()

    def limit(self, cache_megabytes, reads_per_second):
        """Bounds the server's memory, and with it its share of the page cache, and its disk."""
        (CGROUPS / "cgroup.subtree_control").write_text("+memory +io")
        self.group.mkdir()
        (self.group / "memory.max").write_text(str(cache_megabytes << 20))
        if reads_per_second:
            device = os.stat(self.loop).st_rdev
            (self.group / "io.max").write_text(
                f"{os.major(device)}:{os.minor(device)} riops={reads_per_second}")

    def start(self, place=""):
        """A server; one that replaces another has a @place of its own for its files."""
        work = self.work / place
        work.mkdir(exist_ok=True)
        values = {"work": work, "name": self.name, "service": SERVICE, "root": self.root,
                  "tls_port": TLS_PORT}
        config = work / "server.conf"
        if self.server == "nginx":
            config.write_text(NGINX.format(**values))
            command = ("nginx", "-c", str(config), "-g", "daemon off;")
        else:
            config.write_text(FLASH.format(**values))
            command = ("flash", "-c", str(config))
        return self.ns.start(*command, log=self.work / "log", group=self.group)

    def listens(self, process):
        """It does, and not only the one before it."""
        return f"pid={process.pid}," in self.ns.run("ss", "-Htlnp", "sport = :80")

    def bytes_read(self):
        """What its disk has given so far."""
        stat = Path(f"/sys/block/{os.path.basename(self.loop)}/stat").read_text().split()
        return int(stat[2]) * 512

    def peers(self):
        """Who asked, as the server saw it: the client itself, or the front-end for it. Lines per address."""
        log = self.work / "access.log"
        return Counter(line.split(" ", 1)[0] for line in log.read_text().splitlines())

    def forget(self):
        """Empties its page cache."""
        run("mount", "-o", "remount,ro", str(self.root))
        Path("/proc/sys/vm/drop_caches").write_text("1")
