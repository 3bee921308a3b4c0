"""A flash that offers HTTP/2, with files and programs."""
import os
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flashtest import FLASH, wait_for        # noqa: E402
from secured import Secured        # noqa: E402
import kit      # noqa: E402
from http2_client import agree       # noqa: E402

SCRIPTS = {
    "env": "#!/bin/sh\necho 'Content-Type: text/plain'\necho\nenv\n",
    "cat": "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\necho \"$CONTENT_LENGTH $CONTENT_TYPE\"\ncat\n",
    "length": "#!/bin/sh\nprintf 'Content-Length: 5\\n\\nhello'\n",
    "short": "#!/bin/sh\nprintf 'Content-Length: 50\\n\\nhello'\n",
    "cut": "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\na part'\nexec sleep 30\n",
    "slow": "#!/bin/sh\nwhile [ -e gate ]; do sleep 0.05; done\nprintf 'Content-Type: a/b\\n\\nslow'\n",
    "big": "#!/bin/sh\nprintf 'Content-Type: a/b\\n\\n'\nhead -c 3000000 /dev/zero\n",
    "none": "#!/bin/sh\nprintf 'Status: 204 Fine\\nX: y\\n\\n'\n",
    "many": "#!/bin/sh\nfor i in $(seq $QUERY_STRING); do echo \"X-$i: $i\"; done\necho\n",
    "garbage": "#!/bin/sh\necho no header here\necho\n",
}
SIZES = (0, 1, 5, 64, 4096, 16384, 16385, 100000, 1 << 20, 10000019)


class Http2Site(Secured):
    """Its listener offers HTTP/2; programs are in /cgi/, and /app/ is one of FastCGI."""

    def __init__(self, extra="", sizes=SIZES, **more):
        self.offers = True
        programs = f"cgi /cgi/ @DIR@/cgi\nfastcgi /app/ exec:@DIR@/fcgi 1\n{extra}"
        super().__init__(programs, sizes=sizes, **more)
        os.mkdir(os.path.join(self.dir, "cgi"))
        app = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fcgi_app.py")
        scripts = {"cgi/" + name: text for name, text in SCRIPTS.items()}
        scripts["fcgi"] = f"#!/bin/sh\nexec {sys.executable} {app}\n"
        for name, text in scripts.items():
            path = os.path.join(self.dir, name)
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(path, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)

    def configure(self, certificates=None):
        super().configure(certificates)
        if self.offers:
            self.config = self.config.replace(f":{self.tls_port} tls\n", f":{self.tls_port} tls http2\n")
        self.command()

    def http2(self, receive=None):
        """A socket of TLS on which HTTP/2 is agreed."""
        return agree(self.context(), self.tls_port, receive)

    def gate(self, shut):
        """/cgi/slow answers while it is open."""
        path = os.path.join(self.dir, "cgi", "gate")
        if shut:
            with open(path, "wb"):
                pass
        else:
            os.unlink(path)


def no_sanitizer(why):
    """Not with one."""
    with open(FLASH, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            raise kit.Skip(f"with a sanitizer, {why}")


def quiet(s):
    """Nothing is left of what was there, but for who asks."""
    def is_quiet():
        now = s.counters()
        return now["accepted"] == now["closed"] + 1 and not now["held_bytes"]
    wait_for(is_quiet)


class Curl:
    """What curl says of a request by HTTP/2."""

    def __init__(self, s, target, *options, **more):
        paths = [os.path.join(s.dir, end) for end in ("got", "head")]
        run = subprocess.run([kit.need("curl"), "-sS", "--http2", "--cacert",
                              os.path.join(s.certificates[0], "fullchain.pem"), "--resolve",
                              f"one.test:{s.tls_port}:127.0.0.1", "-o", paths[0], "-D", paths[1], "-w",
                              "%{http_version} %{http_code}", *options, f"https://one.test:{s.tls_port}{target}"],
                             capture_output=True, check=False, timeout=120, **more)
        assert run.returncode == 0, run
        self.version, self.status = run.stdout.decode().split()
        with open(paths[0], "rb") as file:
            self.body = file.read()
        with open(paths[1], encoding="latin-1") as file:
            self.head = file.read()
