# SPDX-License-Identifier: GPL-2.0
"""Secrets of TLS 1.3 as a key log has them (SSLKEYLOGFILE), and the keys that are made of them."""
import hashlib
import hmac
import struct

IV_BYTES = 12


def expand(secret, label, length):
    """HKDF-Expand-Label of RFC 8446, 7.1, for what one digest has room for."""
    label = b"tls13 " + label
    info = struct.pack(">HB", length, len(label)) + label + b"\0"
    digest = hashlib.sha384 if len(secret) == 48 else hashlib.sha256
    return hmac.new(secret, info + b"\1", digest).digest()[:length]


def read_log(lines):
    """(name of the secret, the connection's client random, the secret) of each line."""
    rows = [line.split() for line in lines if not line.startswith("#")]
    return [(row[0], bytes.fromhex(row[1]), bytes.fromhex(row[2])) for row in rows if len(row) == 3]


def of_secret(secret):
    """Key and IV of each cipher that the secret could be for."""
    sizes = (32,) if len(secret) == 48 else (16, 32)
    return [expand(secret, b"key", size) for size in sizes] + [expand(secret, b"iv", IV_BYTES)]
