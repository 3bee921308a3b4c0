#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""agent: shakes hands for the links of this network namespace, as tlshd does, for machines that have none.

The kernel gives it a connected socket and the serial number of a shared key; OpenSSL makes a TLS 1.3
handshake with that key and an exchange of its own (PSK with (EC)DHE), and the kernel gets the session's keys.
"""
import ctypes
import os
import socket
import struct
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "kmod/tests/lib")]
import fltnl  # noqa: E402
import keys  # noqa: E402

# linux/handshake.h
ACCEPT, DONE = 2, 3
SOCKET, CLASS, TYPE, IDENTITY = 1, 2, 3, 6
STATUS, STATUS_SOCKET, REMOTE = 1, 2, 3
HANDLER_TLSHD, CLIENT = 1, 1
# linux/tls.h
TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2
VERSION, AES_GCM_128 = 0x0304, 51
# linux/keyctl.h
SYS_KEYCTL, SEARCH, READ, LINK, USER_KEYRING, PROCESS_KEYRING = 250, 10, 11, 8, -4, -2
NAME, KEY_BYTES = b"flotilla", 32
MIN_PROTO_VERSION = 123

LIBC, SSL = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libssl.so.3")
for function in "TLS_method", "SSL_CTX_new", "SSL_new":
    getattr(SSL, function).restype = ctypes.c_void_p
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_uint
CLIENT_KEY = ctypes.CFUNCTYPE(NUMBER, POINTER, POINTER, POINTER, NUMBER, POINTER, NUMBER)
SERVER_KEY = ctypes.CFUNCTYPE(NUMBER, POINTER, ctypes.c_char_p, POINTER, NUMBER)
KEY_LOG = ctypes.CFUNCTYPE(None, POINTER, ctypes.c_char_p)


def keyctl(*words):
    value = LIBC.syscall(SYS_KEYCTL, *words)
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value


def shared_key(serial):
    """Only who possesses a key may read it: the keyring that `flotilla auth key` fills becomes ours, too."""
    keyctl(LINK, keyctl(SEARCH, USER_KEYRING, b"keyring", NAME, 0), PROCESS_KEYRING)
    key = ctypes.create_string_buffer(KEY_BYTES)
    if keyctl(READ, serial, key, KEY_BYTES) != KEY_BYTES:
        raise OSError("a key of another length")
    return key.raw


def client_key(key):
    def give(_ssl, _hint, identity, _room, place, _size):
        ctypes.memmove(identity, NAME + b"\0", len(NAME) + 1)
        ctypes.memmove(place, key, KEY_BYTES)
        return KEY_BYTES
    return CLIENT_KEY(give)


def server_key(key):
    def give(_ssl, identity, place, _size):
        if identity != NAME:
            return 0
        ctypes.memmove(place, key, KEY_BYTES)
        return KEY_BYTES
    return SERVER_KEY(give)


def handshake(fd, is_client, key):
    """The secrets that both sides write with, by the names that a key log gives them."""
    lines = []
    log = KEY_LOG(lambda _ssl, line: lines.append(line.decode()))
    give = (client_key if is_client else server_key)(key)
    context = POINTER(SSL.SSL_CTX_new(POINTER(SSL.TLS_method())))
    SSL.SSL_CTX_ctrl(context, MIN_PROTO_VERSION, ctypes.c_long(VERSION), None)
    SSL.SSL_CTX_set_ciphersuites(context, b"TLS_AES_128_GCM_SHA256")
    # What follows the handshake is the kernel's: nothing of OpenSSL's may.
    SSL.SSL_CTX_set_num_tickets(context, ctypes.c_size_t(0))
    SSL.SSL_CTX_set_keylog_callback(context, log)
    (SSL.SSL_CTX_set_psk_client_callback if is_client else SSL.SSL_CTX_set_psk_server_callback)(context, give)
    ssl = POINTER(SSL.SSL_new(context))
    SSL.SSL_set_fd(ssl, fd)
    done = (SSL.SSL_connect if is_client else SSL.SSL_accept)(ssl)
    SSL.SSL_free(ssl)
    SSL.SSL_CTX_free(context)
    if done != 1:
        raise PermissionError("no handshake")
    return {name: secret for name, _, secret in keys.read_log(lines)}


def encrypt(fd, is_client, secrets):
    """From here on the kernel encrypts what it sends and decrypts what it gets."""
    names = ["SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0"]
    with socket.socket(fileno=os.dup(fd)) as sock:
        sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
        for way, name in ((TLS_TX, names[is_client]), (TLS_RX, names[not is_client])):
            key, iv = (keys.expand(secrets[name], *what) for what in ((b"key", 16), (b"iv", keys.IV_BYTES)))
            sock.setsockopt(SOL_TLS, way, struct.pack("=HH", VERSION, AES_GCM_128) + iv[4:] + key + iv[:4] + bytes(8))


class Handshake(fltnl.Flotilla):
    FAMILY = b"handshake\0"

    def next(self):
        """(descriptor, whether we are the client, serial number of the key), or None."""
        try:
            rows = self.talk(self.family, ACCEPT, fltnl.attr(CLASS, struct.pack("=I", HANDLER_TLSHD)))
        except fltnl.NlError:
            return None
        if not rows:
            return None
        found = {kind: struct.unpack_from("=i", data)[0] for kind, data in fltnl.split(rows[0])
                 if kind in (SOCKET, TYPE, IDENTITY)}
        return found[SOCKET], found[TYPE] == CLIENT, found.get(IDENTITY)

    def answer(self, fd, status, serial):
        remote = fltnl.attr(REMOTE, struct.pack("=i", serial)) if not status else b""
        self.talk(self.family, DONE, fltnl.attr(STATUS, struct.pack("=I", status)) +
                  fltnl.attr(STATUS_SOCKET, struct.pack("=i", fd)) + remote)


def serve(fd, is_client, serial):
    """In a thread of its own: the other side's agent may wait for us meanwhile."""
    status = 0
    try:
        encrypt(fd, is_client, handshake(fd, is_client, shared_key(serial)))
    except (OSError, KeyError, TypeError) as error:
        print(f"a handshake failed: {error}", flush=True)
        status = 13     # EACCES
    try:
        Handshake().answer(fd, status, serial)
    except fltnl.NlError as error:
        print(f"too late: {error}", flush=True)
    os.close(fd)


def main():
    ears, line = Handshake(), Handshake()
    ears.sock.setsockopt(fltnl.SOL_NETLINK, fltnl.NETLINK_ADD_MEMBERSHIP, ears.groups["tlshd"])
    ears.sock.settimeout(None)
    print("ready", flush=True)
    while True:
        ears.sock.recv(4096)
        while (asked := line.next()) is not None:
            threading.Thread(target=serve, args=asked, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
