# SPDX-License-Identifier: GPL-2.0
"""Servers of static files, each with one worker and configured as its documentation says is fast.

afpa is the kernel's cache in front of an nginx that has none of the files; varnish has them all in memory.
"""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FLASH = TOP / "build/bin/flash"
HOST = "127.0.0.1"

NGINX = """worker_processes 1; daemon off; pid {work}/pid; error_log {work}/error; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
    open_file_cache max=10000 inactive=600s; open_file_cache_valid 600s;{more}
    client_body_temp_path {work}/a; proxy_temp_path {work}/b; fastcgi_temp_path {work}/c; uwsgi_temp_path {work}/d;
    scgi_temp_path {work}/e;
    server {{ listen {host}:{port} {tls} backlog=4096; root {www}; }}
}}
"""
NGINX_TLS = ("ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3; "
             "ssl_conf_command Options KTLS;")
LIGHTTPD = """server.port = {port}
server.bind = "{host}"
server.listen-backlog = 4096
server.document-root = "{www}"
server.max-fds = 20000
server.max-connections = 10000
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 600
server.network-backend = "sendfile"
mimetype.assign = ( "" => "application/octet-stream" )
"""
# As bench/pathlen/guest.sh, which says why.
VARNISH = """vcl 4.1;
backend origin {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_backend_response {{ set beresp.ttl = 1d; }}
"""
# What nginx says of a file, too.
AFPA_HEADERS = [word for line in ("Server: nginx/1.22.1", "Last-Modified: Sat, 01 Nov 2025 10:00:00 GMT",
                                  'ETag: "6905dba0-10000"', "Accept-Ranges: bytes") for word in ("header", line)]
PROGRAMS = {"lighttpd": "lighttpd", "nginx": "nginx", "varnish": "varnishd"}


def known(server):
    """Can it be started here?"""
    name = server.partition(" ")[0]
    if "/" in name:
        return os.access(name, os.X_OK)
    if name == "afpa":
        return os.path.exists("/dev/afpa") and shutil.which("nginx")
    return name == "flash" or name in PROGRAMS and shutil.which(PROGRAMS[name])


def certificate(work):
    """Files of a chain and of its key, which both servers show; the key is as theirs must be."""
    chain, key = Path(work) / "chain", Path(work) / "key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", chain],
                   check=True, stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return chain, key


def varnish(work, host, port, origin, more):
    """What starts it, with @more of its arguments; @origin has the files."""
    (work / "vcl").write_text(VARNISH.format(host=host, port=origin))
    tags = re.findall(r"^(\w+)\n-+$", subprocess.run(["varnishd", "-x", "vsl"], text=True, capture_output=True,
                                                     check=True).stdout, re.M)
    parameters = {"listen_depth": 4096, "thread_pools": os.cpu_count(), "timeout_linger": 1, "timeout_idle": 600,
                  "vsl_mask": ",".join("-" + tag for tag in tags)}
    return ["varnishd", "-F", "-j", "none", "-n", work / "varnish", "-a", f"{host}:{port}", "-f", work / "vcl",
            "-s", "malloc,256m", *(word for p in parameters.items() for word in ("-p", "{}={}".format(*p))),
            *shlex.split(more)]


def command(server, work, www, port, files=None, host=HOST):
    """What starts @server: its name, or the path of another build of flash, and more of its configuration.

    With @files, of certificate(), it speaks TLS.
    """
    name, _, more = server.partition(" ")
    if name == "afpa":
        www = work / "none"
        www.mkdir()
        name = "nginx"
    if name == "nginx":
        if files:
            more = NGINX_TLS.format(chain=files[0], key=files[1]) + more
        (work / "conf").write_text(NGINX.format(work=work, www=www, port=port, more=more, host=host,
                                                tls="ssl" if files else ""))
        return ["nginx", "-c", work / "conf", "-e", work / "error"]
    if name == "lighttpd":
        (work / "conf").write_text(LIGHTTPD.format(www=www, port=port, host=host))
        return ["lighttpd", "-D", "-f", work / "conf"]
    if name == "flash" or "/" in name:
        secure = ("--certificate", f"{files[0]} {files[1]}") if files else ()
        return [FLASH if name == "flash" else name, "--listen", f"{host}:{port}" + " tls" * bool(files),
                "--root", www, "--workers", "1", *secure, *shlex.split(more)]
    raise ValueError(name)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """One that runs; its CPU time is that of all its processes, in seconds."""

    def __init__(self, name, work, www, cpu=None, files=None, host=HOST):
        self.name = name
        self.host, self.port = host, free_port()
        self.url = f"http{'s' * bool(files)}://{host}:{self.port}"
        self.origin = None
        work = Path(work) / str(self.port)
        work.mkdir()
        work.chmod(0o755)
        if name.partition(" ")[0] == "varnish":
            self.origin = Server("nginx", work, www, host=host)
            words = varnish(work, host, self.port, self.origin.port, name.partition(" ")[2])
        else:
            words = command(name, work, www, self.port, files, host)
        if cpu is not None:
            words = ["taskset", "-c", str(cpu), *words]
        self.process = subprocess.Popen(list(map(str, words)), start_new_session=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()
        if name.partition(" ")[0] == "afpa":
            self.fill(www)

    def wait(self):
        for _ in range(1200):
            with socket.socket() as s:
                if not s.connect_ex((self.host, self.port)):
                    return
            if self.process.poll() is not None:
                break
            time.sleep(.05)
        raise SystemExit(f"run: '{self.name}' does not serve")

    def site(self, verb):
        subprocess.run(["flotilla", "afpa", "site", verb, f"{self.host}:{self.port}"], check=True)

    def fill(self, www):
        """The kernel's cache with all of @www."""
        self.site("add")
        for path in sorted(www.iterdir()):
            subprocess.run(["flotilla", "cache", "put", f"*:{self.port}/{path.name}", path, "type",
                            "application/octet-stream", *AFPA_HEADERS], check=True)

    def processes(self):
        session = os.getsid(self.process.pid)
        for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda stat: int(stat.parent.name)):
            try:
                if int(stat.read_text().rpartition(")")[2].split()[3]) == session:
                    yield stat.parent
            except OSError:
                pass

    def cpu(self):
        total = 0
        for process in self.processes():
            for task in process.glob("task/*/schedstat"):
                try:
                    total += int(task.read_text().split()[0])
                except OSError:
                    pass
        return total / 1e9

    def close(self):
        if self.name.partition(" ")[0] == "afpa":
            self.site("del")
        if self.origin:
            self.origin.close()
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
