# SPDX-License-Identifier: GPL-2.0
"""Unmodified web servers on the back-ends of a cluster, a dispatcher on its front-end."""
import json
import os
import random
import shutil
import signal
import subprocess

from hof import SLOW, TOP, VIP4, VIP6, wait

SIZES = (0, 1, 17, 500, 1460, 4096, 10000, 33333, 100000, 262144)

NGINX = """daemon off;
master_process off;
error_log {dir}/error.log;
pid {dir}/pid;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    keepalive_requests 100;
    keepalive_timeout 60s;
    server {{ listen {v4}:80 backlog=1024; listen [{v6}]:80 backlog=1024; root {root}; }}
}}
"""

LIGHTTPD = """server.document-root = "{root}"
server.port = 80
server.bind = "{v4}"
server.errorlog = "{dir}/error.log"
server.max-keep-alive-requests = 100
server.max-keep-alive-idle = 60
server.listen-backlog = 1024
$SERVER["socket"] == "[{v6}]:80" {{ }}
"""

APACHE = """ServerName vip
PidFile {dir}/pid
ErrorLog {dir}/error.log
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
KeepAliveTimeout 60
Listen {v4}:80
Listen [{v6}]:80
User nobody
Group nogroup
DocumentRoot {root}
"""

COMMANDS = {
    "nginx": (NGINX, ("nginx", "-c", "{dir}/conf", "-e", "{dir}/error.log")),
    "lighttpd": (LIGHTTPD, ("lighttpd", "-D", "-f", "{dir}/conf")),
    "apache2": (APACHE, ("apache2", "-D", "FOREGROUND", "-f", "{dir}/conf")),
}


def installed(*names):
    """These servers; a test with fewer of them would claim more than it shows."""
    missing = [n for n in names if not shutil.which(n)]
    if missing:
        raise SystemExit("Bail out! not installed (make deps): " + ", ".join(missing))
    return list(names)


class Site:
    """Files, servers, a dispatcher and clients."""

    def __init__(self, cluster, where="/run/handoff-site", seed=1):
        self.cluster, self.where = cluster, where
        shutil.rmtree(where, ignore_errors=True)
        self.root = os.path.join(where, "root")
        os.makedirs(self.root)
        source = random.Random(seed)
        for i, size in enumerate(SIZES):
            with open(os.path.join(self.root, "f%d" % i), "wb") as file:
                file.write(source.randbytes(size))
        self.dispatcher = None

    def serve(self, node, name):
        """Start a server on a node and wait until it listens."""
        place = os.path.join(self.where, node.name)
        os.makedirs(place)
        os.chmod(place, 0o777)
        conf, words = COMMANDS[name]
        values = {"dir": place, "root": self.root, "v4": VIP4, "v6": VIP6,
                  "modules": "/usr/lib/apache2/modules"}
        with open(os.path.join(place, "conf"), "w", encoding="utf-8") as file:
            file.write(conf.format(**values))
        child = node.spawn(*(w.format(**values) for w in words))
        wait(lambda: "LISTEN" in node.output("ss", "-Htln", "sport = :80"))
        assert child.poll() is None, name
        return child

    def dispatch(self, nodes, address=VIP4, options=("-t", str(5000 * SLOW)), later=False):
        """Start the dispatcher of the tests on the front-end."""
        fe = self.cluster.fe
        self.dispatcher = fe.spawn(
            os.path.join(TOP, "build/tests/handoff-dispatch"), *options, *(["-l"] * later), address, "80",
            *(str(fe.id[n.name]) for n in nodes), stdout=subprocess.PIPE)
        wait(lambda: "LISTEN" in fe.output("ss", "-Htln", "sport = :80"))

    def report(self):
        """What the dispatcher has done so far."""
        self.dispatcher.send_signal(signal.SIGUSR1)
        return json.loads(self.dispatcher.stdout.readline())

    def stop(self):
        self.dispatcher.send_signal(signal.SIGTERM)
        last = json.loads(self.dispatcher.stdout.readline())
        assert self.dispatcher.wait() == 0
        return last

    def clients(self, connections, parallel, seed, aborts=0, address=VIP4, timeout=600):
        """Run the client of the tests; its report. It fails when a byte is wrong or missing."""
        ran = subprocess.run(
            ("ip", "netns", "exec", self.cluster.client.ns,
             os.path.join(TOP, "build/tests/handoff-client"), address, "80", self.root,
             str(connections), str(parallel), str(seed), str(aborts)),
            stdout=subprocess.PIPE, timeout=timeout, stdin=subprocess.DEVNULL, check=False)
        got = json.loads(ran.stdout)
        print("# client: %s" % got, flush=True)
        assert ran.returncode == 0, got
        return got
