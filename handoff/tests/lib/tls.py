# SPDX-License-Identifier: GPL-2.0
"""TLS for tests of handoff: a front-end that shakes hands and keeps the keys, and its clients."""
import atexit
import contextlib
import ctypes
import fcntl
import hashlib
import hmac
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import termios
import threading

from hof import CLOSED, DONE, IOC_SUBMIT, PATIENCE, VIP4, Cluster, Refused, accept, receive, wait

SUBMIT_TLS = struct.Struct("=IiIIQIIQ")
PLACE = tempfile.mkdtemp()
atexit.register(shutil.rmtree, PLACE)
CHAIN, KEY, LOG = (os.path.join(PLACE, n) for n in ("chain", "key", "log"))
# By what OpenSSL calls them: of linux/tls.h, bytes of the key, digest.
CIPHERS = {"TLS_AES_128_GCM_SHA256": (51, 16, hashlib.sha256), "TLS_AES_256_GCM_SHA384": (52, 32, hashlib.sha384),
           "TLS_CHACHA20_POLY1305_SHA256": (54, 32, hashlib.sha256)}
ALERT, HANDSHAKE, DATA = 21, 22, 23
REQUEST = b"GET /a HTTP/1.1\r\nHost: vip\r\n\r\n"


def make_certificate():
    if not os.path.exists(KEY):
        subprocess.run(("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=vip", "-addext", "subjectAltName=IP:" + VIP4, "-keyout", KEY,
                        "-out", CHAIN), check=True, stderr=subprocess.DEVNULL)


def expand(secret, label, length, digest):
    """HKDF-Expand-Label of RFC 8446, 7.1."""
    label = b"tls13 " + label
    info = struct.pack(">HB", length, len(label)) + label + b"\0"
    out = part = b""
    number = 1
    while len(out) < length:
        part = hmac.new(secret, part + info + bytes([number]), digest).digest()
        out += part
        number += 1
    return out[:length]


def encrypt(cipher, key, nonce, head, text):
    """By libcrypto: Python has no AEAD of its own."""
    lib = ctypes.CDLL("libcrypto.so.3")
    names = {51: "EVP_aes_128_gcm", 52: "EVP_aes_256_gcm", 54: "EVP_chacha20_poly1305"}
    for name in "EVP_CIPHER_CTX_new", names[cipher]:
        getattr(lib, name).restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
    out, tag, n = ctypes.create_string_buffer(len(text)), ctypes.create_string_buffer(16), ctypes.c_int()
    assert lib.EVP_EncryptInit_ex(context, ctypes.c_void_p(getattr(lib, names[cipher])()), None, key, nonce) == 1
    assert lib.EVP_EncryptUpdate(context, None, ctypes.byref(n), head, len(head)) == 1
    assert lib.EVP_EncryptUpdate(context, out, ctypes.byref(n), text, len(text)) == 1
    assert lib.EVP_EncryptFinal_ex(context, tag, ctypes.byref(n)) == 1
    assert lib.EVP_CIPHER_CTX_ctrl(context, 0x10, 16, tag) == 1     # EVP_CTRL_AEAD_GET_TAG
    lib.EVP_CIPHER_CTX_free(context)
    return out.raw + tag.raw


def read_record(sock):
    """One record, and nothing behind it."""
    head = receive(sock, 5)
    return head + receive(sock, struct.unpack(">H", head[3:])[0])


class Secrets:
    """What handoff is to be told of a connection."""

    def __init__(self, cipher, log, tx):
        self.cipher, key, digest = CIPHERS[cipher]
        lines = dict((line.split()[0], bytes.fromhex(line.split()[2])) for line in log if len(line.split()) == 3)
        self.ways = []
        for name in "SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0":
            self.ways.append((expand(lines[name], b"key", key, digest), expand(lines[name], b"iv", 12, digest)))
        self.tx, self.rx = tx, 0

    def pack(self, port=0, version=0x0304, cipher=None, pad=0):
        data = struct.pack("=HHHH", version, cipher or self.cipher, port, pad)
        for (key, iv), sequence in zip(self.ways, (self.tx, self.rx)):
            data += key.ljust(32, b"\0") + iv + struct.pack(">Q", sequence)
        return data

    def keys(self):
        return [way[0] for way in self.ways]

    def record(self, text, sequence, kind=DATA, way=1):
        """One that the client makes; or with @way 0 the server."""
        key, start = self.ways[way]
        nonce = bytes(a ^ b for a, b in zip(start, struct.pack(">IQ", 0, sequence)))
        head = struct.pack(">BHH", DATA, 0x0303, len(text) + 17)
        return head + encrypt(self.cipher, key, nonce, head, text + bytes([kind]))


def shake(sock, tickets=2):
    """The server's side of a handshake, which leaves what follows in the socket."""
    make_certificate()
    with open(LOG, "w", encoding="ascii"):
        pass
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CHAIN, KEY)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = LOG
    context.num_tickets = tickets
    came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context.wrap_bio(came, goes, server_side=True)
    while True:
        try:
            engine.do_handshake()
            over = True
        except ssl.SSLWantReadError:
            over = False
        data = goes.read()
        sock.sendall(data)
        if over:
            break
        came.write(read_record(sock))
    count = 0
    while data:
        data = data[5 + struct.unpack(">H", data[3:5])[0]:]
        count += 1
    with open(LOG, encoding="ascii") as file:
        return Secrets(engine.cipher()[0], file.readlines(), count)


def submit(device, sock, node, secrets, **how):
    """As Handoff.submit(), with keys."""
    keys = ctypes.create_string_buffer(how.pop("raw", None) or secrets.pack(port=how.pop("port", 0)))
    args = bytearray(SUBMIT_TLS.pack(SUBMIT_TLS.size, sock.fileno(), node, how.get("flags", 0),
                                     how.get("cookie", 0), 0, 0, ctypes.addressof(keys)))
    try:
        return fcntl.ioctl(device.fd, IOC_SUBMIT, args)
    except OSError as error:
        raise Refused(error.errno, SUBMIT_TLS.unpack(args)[6]) from None


class Curl:
    """curl fetches /x from the VIP with one cipher."""

    def __init__(self, node, suite, patience=PATIENCE):
        self.file = tempfile.NamedTemporaryFile()
        self.child = node.spawn("curl", "-sk", "--tlsv1.3", "--tls13-ciphers", suite, "-m", str(patience),
                                "-o", self.file.name, "https://%s/x" % VIP4)

    def answer(self):
        assert self.child.wait() == 0, self.child.returncode
        return self.file.read()


class Client(threading.Thread):
    """Connects, shakes hands and sends @request; then .tls is there."""

    def __init__(self, node, request=b"", port=443, family=4):
        super().__init__(daemon=True)
        self.request, self.tls, self.error = request, None, None
        self.sock = node.connect(port, family)
        self.start()

    def run(self):
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.set_alpn_protocols(["http/1.1"])
            # An end without close_notify is an error.
            context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
            tls = context.wrap_socket(self.sock, suppress_ragged_eofs=False)
            if self.request:
                tls.sendall(self.request)
            self.tls = tls
        except OSError as error:
            self.error = error

    def ready(self):
        self.join(PATIENCE)
        if self.error:
            raise self.error
        assert self.tls, "no handshake"
        return self.tls


class FrontEnd:
    """A listener of TLS on the front-end, and its device."""

    def __init__(self, cluster, port=443, family=4):
        self.fe, self.port, self.family = cluster.fe, port, family
        self.listener = cluster.fe.listen(port, family)
        self.device = cluster.fe.handoff()
        self.cookie = 0

    def accept(self, tickets=2):
        """(socket, secrets) of the next client."""
        sock = self.listener.accept()[0]
        sock.settimeout(PATIENCE)
        return sock, shake(sock, tickets)

    def peek(self, sock):
        """Wait for one whole record, which stays."""
        def there():
            data = sock.recv(20000, socket.MSG_PEEK)
            return len(data) >= 5 and len(data) >= 5 + struct.unpack(">H", data[3:5])[0] and data
        return wait(there)

    def give(self, sock, secrets, node, **how):
        self.cookie += 1
        submit(self.device, sock, self.fe.id[node.name], secrets, cookie=self.cookie, **how)
        return self.cookie

    def settled(self, cookie, kind=DONE, refusal="none"):
        """What became of a handoff; that others have ended meanwhile is passed over."""
        while True:
            got = self.device.event()
            if got[0] != CLOSED:
                break
        assert got[:2] == (kind, cookie) and got[3] == refusal, got

    def close(self):
        self.device.close()
        self.listener.close()


@contextlib.contextmanager
def set_up():
    with Cluster(1, encrypted=True) as c:
        front = FrontEnd(c)
        try:
            yield c, front, c.be[0]
        finally:
            front.close()


def given(c, front, be, listener, request=REQUEST, **how):
    """A connection that @be's listener has accepted: (client, server)."""
    client = Client(c.client, request, family=front.family)
    sock, secrets = front.accept()
    front.last = secrets
    client.ready()
    if request:
        front.peek(sock)
    cookie = front.give(sock, secrets, be, **how)
    front.settled(cookie)
    sock.close()
    server = accept(listener)
    return client.tls, server


@contextlib.contextmanager
def served():
    """A connection that was handed off, and whose request its server has read."""
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client, server = given(c, front, be, listener)
        assert receive(server, len(REQUEST)) == REQUEST
        yield front, be, client, server


def read_all(sock):
    data = b""
    while part := sock.recv(65536):
        data += part
    return data


def pending(sock, size):
    """Wait until @size bytes are there that TCP has not been asked for."""
    there = bytearray(4)

    def enough():
        fcntl.ioctl(sock, termios.FIONREAD, there)
        return struct.unpack("=i", there)[0] >= size
    wait(enough)
