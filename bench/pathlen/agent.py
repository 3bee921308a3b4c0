#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""agent.py PORT: in a guest that is not counted, run what the host says, one shell command a connection.

The connection carries the command up to its first NUL byte, and back the output and, as the last line,
the exit status. "quit" ends. Only for the closed network of a benchmark's guests.
"""
import socket
import subprocess
import sys


def main():
    server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
    while True:
        connection = server.accept()[0]
        with connection:
            command = b""
            while not command.endswith(b"\0"):
                part = connection.recv(65536)
                if not part:
                    break
                command += part
            command = command.rstrip(b"\0").decode()
            if command == "quit":
                return
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, check=False)
            connection.sendall(done.stdout + f"\n{done.returncode}\n".encode())


main()
