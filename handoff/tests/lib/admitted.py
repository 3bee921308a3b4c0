# SPDX-License-Identifier: GPL-2.0
"""Back-ends of which the first takes more connections than its server has places for, and their clients."""
import contextlib
import select
import socket
import threading

from hof import PATIENCE, SLOW, VIP4, receive, wait
from policed import Nodes, get

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"


class Server(threading.Thread):
    """Says its node's name; takes what is in its listener's queue from start() on."""

    def __init__(self, node, backlog=128, start=True, address=VIP4):
        super().__init__(daemon=True)
        self.name, self.over, self.ended = node.name, False, 0
        self.listener = node.listen(backlog=backlog, address=address)
        self.conns = []
        if start:
            self.start()

    def run(self):
        poll = select.epoll()
        self.listener.setblocking(False)
        poll.register(self.listener, select.EPOLLIN)
        have = {}
        while not self.over:
            for fd, _ in poll.poll(0.05):
                if fd == self.listener.fileno():
                    with contextlib.suppress(BlockingIOError):
                        sock = self.listener.accept()[0]
                        have[sock.fileno()] = sock
                        sock.setblocking(False)
                        poll.register(sock, select.EPOLLIN)
                    continue
                try:
                    data = have[fd].recv(4096)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if data:
                    have[fd].send(ANSWER + self.name.encode())
                else:
                    self.ended += 1
                    have.pop(fd).close()
        for sock in have.values():
            sock.close()

    def stop(self):
        self.over = True
        if self.is_alive():
            self.join()
        self.listener.close()


class Admits(Nodes):
    """be1 has admission; each back-end a server, be1's at first does not take what comes."""

    def __init__(self, backends=2, backlog=64, names=("client",)):
        super().__init__(backends, listening=False, names=names)
        self.servers = {be.name: Server(be, 1024) for be in self.be[1:]}
        self.serves(backlog)
        # So slow a machine is not what this is about.
        for be in self.be:
            be.sysctl("net.flotilla.migrate_wait_ms", 10000)

    def serves(self, backlog, start=False):
        """be1's server, anew."""
        old = self.servers.get("be1")
        if old:
            old.stop()
        self.servers["be1"] = Server(self.be[0], backlog, start)

    def starts(self, name="be1"):
        self.servers[name].start()

    def queue(self, at=0):
        """How many are in the accept queue of a listener, and what its length is."""
        fields = self.be[at].output("ss", "-Htln", "sport = :80").split()
        return int(fields[1]), int(fields[2])

    def admission(self):
        return self.flotilla("admission")[0]

    def sum(self):
        """What is said of the tagged ones, which has to come out even."""
        a = self.admission()
        assert a["tagged"] == sum(a[x] for x in ("moved", "rejected", "kept", "dropped", "waiting")), a
        assert 0 <= a["waiting"] <= a["admit"] and 0 <= a["window"] <= a["admit"], a
        return a

    def knock(self, node=None, seconds=None):
        """A client that is let in, or None."""
        node = node or self.client
        with node.inside():
            sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((VIP4, 80))
        if not select.select([], [sock], [], seconds or 0.5 * SLOW)[1] or \
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            sock.close()
            return None
        sock.settimeout(PATIENCE)
        self.opened.append(sock)
        return sock

    def crowd(self, number, node=None):
        """So many come one after the other, until one is not let in."""
        came = []
        while len(came) < number and (sock := self.knock(node)):
            came.append(sock)
        return came

    def fills(self, number, tagged):
        """The queue of be1's server, which does not take them."""
        came = self.crowd(number)
        wait(lambda: self.queue()[0] == len(came))
        a = self.sum()
        assert a["tagged"] - a["moved"] - a["rejected"] - a["kept"] - a["dropped"] == tagged, (len(came), a)
        return came

    @staticmethod
    def asks(client, path="/"):
        """Who answers."""
        client.sendall(get(path))
        answer = receive(client, len(ANSWER) + 3)
        assert answer.startswith(ANSWER), answer
        return answer[len(ANSWER):].decode()

    def leaves(self, clients):
        for client in clients:
            client.close()
            self.opened.remove(client)

    def __exit__(self, *more):
        for server in self.servers.values():
            server.stop()
        super().__exit__(*more)
