# SPDX-License-Identifier: GPL-2.0
"""A certificate authority of its own, by openssl(1)."""

import os
import subprocess
import time

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words):
    return subprocess.run(["openssl", *words], check=True, capture_output=True).stdout


def renegotiation(port):
    """What openssl says of its wish for new keys. Its input stays open: at the end of that it would not wait."""
    with subprocess.Popen(["timeout", "60", "openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2"],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        run.stdin.write(b"R\n")
        run.stdin.flush()
        return run.stderr.read()


class Authority:
    """Its files are in directory, by its name there; subject: in its certificate."""

    def __init__(self, directory, name="ca", subject=None):
        self.base = os.path.join(directory, name)
        self.chain, self.key, self.index = self.base + ".pem", self.base + ".key", self.base + ".index"
        self.serial = 0
        openssl("req", "-x509", *EC, "-days", "9", "-subj", f"/CN={subject or name}", "-keyout", self.key, "-out",
                self.chain)

    def below(self, name):
        """An authority that this one vouches for, by renew()."""
        return Authority(os.path.dirname(self.base), name)

    def renew(self, above, chain, seconds):
        """Makes a new certificate of its own, of the authority above, and puts it into chain instead of the old."""
        with open(self.chain, encoding="ascii") as old, open(chain, encoding="ascii") as file:
            text = file.read().partition(old.read())[0]
        with open(self.base + ".db", "w", encoding="ascii"), open(self.base + ".ext", "w", encoding="ascii") as file:
            file.write("basicConstraints=critical,CA:TRUE\n")
        until = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        above.ca(self.base, "-ss_cert", self.chain, "-extfile", self.base + ".ext", "-enddate", until, "-out",
                 self.chain, "-startdate", "20200101000000Z", "-preserveDN", "-rand_serial")
        with open(self.chain, encoding="ascii") as new, open(chain, "w", encoding="ascii") as file:
            file.write(text + new.read())

    def issue(self, name, subject=None, extensions="", seconds=86400):
        """Paths of its certificate, the authority's behind it, and of its key; good for so many seconds."""
        self.serial += 1
        base = f"{self.base}-{self.serial}"
        openssl("req", "-new", *EC, "-subj", subject or f"/CN={name}", "-utf8", "-keyout", base + ".key", "-out",
                base + ".csr")
        with open(base + ".ext", "w", encoding="utf-8") as file:
            file.write(f"basicConstraints=CA:FALSE\nsubjectAltName=DNS:{name}\n{extensions}\n")
        with open(base + ".db", "w", encoding="ascii"), open(base + ".serial", "w", encoding="ascii") as file:
            file.write(f"{self.serial:02x}\n")
        until = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        self.ca(base, "-in", base + ".csr", "-extfile", base + ".ext", "-enddate", until, "-out", base + ".pem",
                "-startdate", "20200101000000Z", "-preserveDN")
        with open(base + ".pem", "a", encoding="ascii") as chain, open(self.chain, encoding="ascii") as issuer:
            chain.write(issuer.read())
        return base + ".pem", base + ".key"

    def ca(self, base, *words):
        """openssl ca(1), with a data base of its own."""
        config = base + ".conf"
        with open(config, "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=c\n[c]\ndatabase={base}.db\nnew_certs_dir={os.path.dirname(base)}\n"
                       f"serial={base}.serial\npolicy=p\ndefault_md=sha256\ndefault_crl_days=1\nunique_subject=no\n"
                       "[p]\ncommonName=optional\norganizationalUnitName=optional\n")
        openssl("ca", "-config", config, "-cert", self.chain, "-keyfile", self.key, "-batch", "-notext", "-utf8",
                *words)

    def revoke(self, *chains, seconds=86400):
        """A list that names these, as PEM; good for so many seconds."""
        base = self.base + "-crl"
        with open(base + ".db", "w", encoding="ascii"):
            pass
        for chain in chains:
            self.ca(base, "-revoke", chain)
        self.ca(base, "-gencrl", "-crlsec", str(seconds), "-out", base + ".pem")
        with open(base + ".pem", encoding="ascii") as file:
            return file.read()

    def ocsp(self, chain, path):
        """A response that this certificate is good, for a day."""
        serial = openssl("x509", "-in", chain, "-noout", "-serial").decode().strip().partition("=")[2]
        with open(self.index, "w", encoding="ascii") as file:
            file.write(f"V\t491231235959Z\t\t{serial}\tunknown\t/CN=x\n")
        openssl("ocsp", "-index", self.index, "-CA", self.chain, "-rsigner", self.chain, "-rkey", self.key, "-issuer",
                self.chain, "-cert", chain, "-respout", path, "-ndays", "1", "-noverify")
