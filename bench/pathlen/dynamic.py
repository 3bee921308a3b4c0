#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""dynamic.py PORT: in the counted guest, /fBYTES is a page of that size that takes 10 ms of the processor to make."""
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COST = 0.01


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self):
        end = time.thread_time() + COST
        while time.thread_time() < end:
            pass
        body = b"x" * int(self.path.removeprefix("/f"))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Page).serve_forever()
