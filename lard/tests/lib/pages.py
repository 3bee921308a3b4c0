# SPDX-License-Identifier: GPL-2.0
"""Origins whose answers tests of the cache hold back and change."""
import threading


def text(body, *fields, status="200 OK"):
    head = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 {status}\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Page:
    """An origin of one answer, which can be held back and changed."""

    def __init__(self, *fields):
        self.fields, self.body, self.status = fields, "one", "200 OK"
        self.go, self.asked = threading.Event(), 0
        self.go.set()

    def __call__(self, _peer, _head, _body):
        self.asked += 1
        body, fields, status = self.body, self.fields, self.status
        self.go.wait(60)
        return text(body, *fields, status=status), True


class Crowd:
    """Clients that ask for the same at the same time."""

    def __init__(self, lardd, count, target="/x", fields=""):
        self.answers = []

        def ask():
            answer = lardd.get(target, fields)
            self.answers.append((answer[0], bytes(answer[2]).decode()))
        self.threads = [threading.Thread(target=ask) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()
        return self.answers
