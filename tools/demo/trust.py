# SPDX-License-Identifier: GPL-2.0
"""Who believes whom: the key of the links, who shakes hands for them, and what clients verify."""
import contextlib
import pwd
import shutil
from pathlib import Path

from network import SERVICE, run

HERE = Path(__file__).resolve().parent
TLSHD_CONF = "[debug]\nloglevel=0\n[authenticate]\nkeyrings=flotilla\n[authenticate.client]\n[authenticate.server]\n"


def user():
    """As whom lardd goes on when it has begun: it reads the certificate's key again at each reload."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("flotilla").pw_name
    return "nobody"


class Trust:
    """Its files are in @directory."""

    def __init__(self, directory):
        self.key_file = directory / "link-key"
        self.chain, self.private = directory / "demo.pem", directory / "demo.key"
        self.agent_conf = directory / "tlshd.conf"
        self.tlshd = shutil.which("tlshd")

    def make(self):
        """The links' serial number of the key; all nodes here have the same kernel, so one loads it for all."""
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "7", "-subj", "/CN=Flotilla's demo", "-keyout", str(self.private), "-out", str(self.chain),
            "-addext", f"subjectAltName=IP:{SERVICE},IP:127.0.0.1,DNS:localhost")
        self.private.chmod(0o600)
        shutil.chown(self.private, user())
        self.agent_conf.write_text(TLSHD_CONF)
        run("modprobe", "nvme-keyring")
        return run("flotilla", "auth", "key", str(self.key_file)).strip()

    def agent(self, ns, log):
        """Shakes hands for a node's links; a machine may have no tlshd."""
        if self.tlshd:
            return ns.start(self.tlshd, "-s", "-c", str(self.agent_conf), log=log)
        return ns.start(str(HERE / "agent.py"), log=log)

    def secrets(self):
        """What must not be seen: the links' key, and the number that is the certificate's private key."""
        text = run("openssl", "ec", "-in", str(self.private), "-noout", "-text")
        number = text.partition("priv:")[2].partition("pub:")[0]
        return [bytes.fromhex(self.key_file.read_text()), bytes.fromhex("".join(number.split()).replace(":", ""))]
