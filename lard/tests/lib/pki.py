# SPDX-License-Identifier: GPL-2.0
"""A certificate authority of its own, by openssl(1)."""

import os
import subprocess

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words):
    return subprocess.run(["openssl", *words], check=True, capture_output=True).stdout


class Authority:
    """Its files are in directory, by its name there; subject: in its certificate."""

    def __init__(self, directory, name="ca", subject=None):
        self.base = os.path.join(directory, name)
        self.chain, self.key, self.index = self.base + ".pem", self.base + ".key", self.base + ".index"
        self.serial = 0
        openssl("req", "-x509", *EC, "-days", "9", "-subj", f"/CN={subject or name}", "-keyout", self.key, "-out",
                self.chain)

    def issue(self, name, subject=None, extensions="", days=2):
        """Paths of its certificate, the authority's behind it, and of its key."""
        self.serial += 1
        base = f"{self.base}-{name}"
        openssl("req", "-new", *EC, "-subj", subject or f"/CN={name}", "-utf8", "-keyout", base + ".key", "-out",
                base + ".csr")
        with open(base + ".ext", "w", encoding="utf-8") as file:
            file.write(f"basicConstraints=CA:FALSE\nsubjectAltName=DNS:{name}\n{extensions}\n")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.chain, "-CAkey", self.key, "-set_serial",
                str(self.serial), "-days", str(days), "-extfile", base + ".ext", "-out", base + ".pem")
        with open(base + ".pem", "a", encoding="ascii") as chain, open(self.chain, encoding="ascii") as issuer:
            chain.write(issuer.read())
        return base + ".pem", base + ".key"

    def ocsp(self, chain, path):
        """A response that this certificate is good, for a day."""
        serial = openssl("x509", "-in", chain, "-noout", "-serial").decode().strip().partition("=")[2]
        with open(self.index, "w", encoding="ascii") as file:
            file.write(f"V\t491231235959Z\t\t{serial}\tunknown\t/CN=x\n")
        openssl("ocsp", "-index", self.index, "-CA", self.chain, "-rsigner", self.chain, "-rkey", self.key, "-issuer",
                self.chain, "-cert", chain, "-respout", path, "-ndays", "1", "-noverify")
