#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The keys that the demo looks for are those that TLS makes; its agent shakes hands with who has the key only."""
import os
import socket
import subprocess
import sys
import threading

TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
sys.path[:0] = [os.path.join(TOP, "tools/demo"), os.path.join(TOP, "tools/testing/lib")]
import agent                            # noqa: E402
import keys                             # noqa: E402
from kit import claim, equal, main      # noqa: E402

# RFC 8448, 3: client_application_traffic_secret_0, and the key and IV that are made of it.
SECRET = bytes.fromhex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
KEY, IV = bytes.fromhex("17422dda596ed5d9acd890e3c63f5051"), bytes.fromhex("5b78923dee08579033e523d9")


def openssl(secret, digest, label, size):
    words = ["openssl", "kdf", "-binary", "-keylen", str(size)]
    for option in ("mode:EXPAND_ONLY", "prefix:tls13 ", f"digest:{digest}", f"hexkey:{secret.hex()}", f"label:{label}"):
        words += ["-kdfopt", option]
    return subprocess.run([*words, "TLS13-KDF"], check=True, stdout=subprocess.PIPE).stdout


@claim
def keys_and_ivs_are_those_of_the_standard():
    made = keys.of_secret(SECRET)
    assert KEY in made and IV in made, made


@claim
def for_each_cipher_they_are_those_of_openssl():
    for secret, digest, sizes in ((bytes(range(32)), "SHA256", (16, 32)), (bytes(range(48)), "SHA384", (32,))):
        equal(digest, keys.of_secret(secret),
              [openssl(secret, digest, "key", size) for size in sizes] + [openssl(secret, digest, "iv", 12)])


@claim
def a_key_log_is_read():
    equal("rows", keys.read_log(["# by OpenSSL\n", "A 01 0203\n", "\n"]), [("A", b"\1", b"\2\3")])


def shake(client_key, server_key):
    """What each side has of a handshake, or the error that it has instead."""
    sides, found = socket.socketpair(), [None, None]

    def one(is_client, key):
        with sides[is_client] as sock:
            try:
                found[is_client] = agent.handshake(sock.fileno(), is_client, key)
            except PermissionError as error:
                found[is_client] = error
    server = threading.Thread(target=one, args=(False, server_key))
    server.start()
    one(True, client_key)
    server.join()
    return found


@claim
def both_agents_have_the_same_secrets_each_time_others():
    first, second = shake(bytes(32), bytes(32)), shake(bytes(32), bytes(32))
    for server, client in first, second:
        equal("client", client, server)
        assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= set(client), client
    assert not set(first[0].values()) & set(second[0].values())


@claim
def who_has_another_key_gets_no_handshake():
    for side in shake(bytes(32), bytes(31) + b"\1"):
        assert isinstance(side, PermissionError), side


if __name__ == "__main__":
    main()
