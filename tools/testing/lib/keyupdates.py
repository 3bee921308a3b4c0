# SPDX-License-Identifier: GPL-2.0
"""A client of TLS that has new keys whenever a test wants it, which Python's cannot."""
import contextlib
import ctypes


class KeyUpdates:
    """A client of 1.3 by OpenSSL itself, which can make many of them before it sends them."""

    def __init__(self, tcp):
        self.tcp, self.lib, pointer = tcp, ctypes.CDLL("libssl.so.3"), ctypes.c_void_p
        lib, self.errors = self.lib, ctypes.CDLL("libcrypto.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_new", "BIO_s_mem"):
            getattr(lib, name).restype = pointer
        self.ssl, self.into, self.out = map(pointer, (
            lib.SSL_new(pointer(lib.SSL_CTX_new(pointer(lib.TLS_client_method())))),
            lib.BIO_new(pointer(lib.BIO_s_mem())), lib.BIO_new(pointer(lib.BIO_s_mem()))))
        lib.SSL_set_bio(self.ssl, self.into, self.out)
        lib.SSL_set_connect_state(self.ssl)
        while lib.SSL_do_handshake(self.ssl) != 1:
            tcp.sendall(self.made())
            got = tcp.recv(65536)
            lib.BIO_write(self.into, got, len(got))
        tcp.sendall(self.made())

    def made(self):
        """What is to be sent."""
        buffer, made = ctypes.create_string_buffer(65536), []
        while (n := self.lib.BIO_read(self.out, buffer, len(buffer))) > 0:
            made.append(buffer.raw[:n])
        return b"".join(made)

    def records(self, count, both=0):
        """So many; both: the other side is to have new keys, too."""
        for _ in range(count):
            assert self.lib.SSL_key_update(self.ssl, both) == 1 and self.lib.SSL_do_handshake(self.ssl) == 1
        return self.made()

    def get(self, path, size):
        """Body of an answer, or what there is of the answer at the end."""
        ask, buffer, got = f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), ctypes.create_string_buffer(65536), b""
        self.lib.SSL_write(self.ssl, ask, len(ask))
        with contextlib.suppress(ConnectionError):
            self.tcp.sendall(self.made())
            while b"\r\n\r\n" not in got or len(got.split(b"\r\n\r\n", 1)[1]) < size:
                self.errors.ERR_clear_error()
                if (n := self.lib.SSL_read(self.ssl, buffer, len(buffer))) > 0:
                    got += buffer.raw[:n]
                    continue
                assert self.lib.SSL_get_error(self.ssl, n) != 1, "a record that cannot be read"
                data = self.tcp.recv(65536)
                if not data or n == 0:
                    return got
                self.lib.BIO_write(self.into, data, len(data))
            return got.split(b"\r\n\r\n", 1)[1]
        return got

    def read_until(self, end):
        """All up to it."""
        buffer, read = ctypes.create_string_buffer(65536), b""
        while not read.endswith(end):
            if (n := self.lib.SSL_read(self.ssl, buffer, len(buffer))) > 0:
                read += buffer.raw[:n]
                continue
            got = self.tcp.recv(65536)
            assert got, read
            self.lib.BIO_write(self.into, got, len(got))
