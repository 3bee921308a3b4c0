#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""play.py SUITE SCRIPT [ARGUMENT...] - one of tlsfuzzer's scripts, with ciphers that our servers have.

Many for TLS 1.2 know RSA key exchange and CBC only, which are refused here, although what they try has nothing to do
with that. Where they name such a suite they get one of ECDHE and AES-GCM with the same certificate, a hello that says
which curves and signatures, and the message that ECDHE has besides. PLAIN=1 leaves all as it is.
"""
import os
import runpy
import sys

PATIENCE = 20               # seconds for an answer; the scripts have 5


def substitute():
    """Before a script is read: its suites are these names."""
    from tlslite.constants import CipherSuite
    for name in dir(CipherSuite):
        kex, _, rest = name.partition("_WITH_")
        if kex in ("TLS_RSA", "TLS_DHE_RSA", "TLS_ECDHE_RSA", "TLS_ECDHE_ECDSA") and "CBC" in rest:
            size, digest = ("256", "384") if "256_CBC" in rest else ("128", "256")
            sign = "ECDSA" if kex.endswith("ECDSA") else "RSA"
            setattr(CipherSuite, name, getattr(CipherSuite, f"TLS_ECDHE_{sign}_WITH_AES_{size}_GCM_SHA{digest}"))


def say_more(hello):
    """A hello without extensions is one of a client that knows neither ECDHE nor SHA-256."""
    from tlslite.constants import ExtensionType, GroupName, SignatureScheme
    from tlslite.extensions import SignatureAlgorithmsExtension, SupportedGroupsExtension
    before = hello.__init__

    def init(self, *args, **named):
        before(self, *args, **named)
        if self.ssl2 or (self.version and self.version < (3, 3)):
            return
        more = self.extensions
        if more is None:
            more = {}
        elif ExtensionType.supported_versions in more:
            return
        if ExtensionType.supported_groups not in more:
            more[ExtensionType.supported_groups] = SupportedGroupsExtension().create([GroupName.secp256r1])
        if ExtensionType.signature_algorithms not in more:
            more[ExtensionType.signature_algorithms] = SignatureAlgorithmsExtension().create(
                [SignatureScheme.rsa_pss_rsae_sha256, SignatureScheme.rsa_pkcs1_sha256,
                 SignatureScheme.ecdsa_secp256r1_sha256])
        self.extensions = more

    hello.__init__ = init


def expect_more():
    """Behind the certificate is the server's key of ECDHE."""
    from tlsfuzzer import expect, tree
    before = tree.TreeNode.add_child

    def add_child(self, child):
        if isinstance(child, (expect.ExpectServerHelloDone, expect.ExpectCertificateRequest)) and \
                type(self) in (expect.ExpectCertificate, expect.ExpectCertificateStatus):
            before(self, expect.ExpectServerKeyExchange()).add_child(child)
        else:
            before(self, child)
        return child

    tree.TreeNode.add_child = add_child


def be_patient(connect):
    """A machine may be busy."""
    before = connect.__init__

    def init(self, hostname, port, version=(3, 0), timeout=PATIENCE):
        before(self, hostname, port, version, max(timeout, PATIENCE))

    connect.__init__ = init


def main(suite, script, *arguments):
    sys.path.insert(0, suite)
    from tlsfuzzer.messages import Connect
    be_patient(Connect)
    if not os.environ.get("PLAIN"):
        from tlsfuzzer.messages import ClientHelloGenerator
        substitute()
        say_more(ClientHelloGenerator)
        expect_more()
    sys.argv = [script, *arguments]
    runpy.run_module("tlsfuzzer._apps." + script.replace("-", "_"), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
