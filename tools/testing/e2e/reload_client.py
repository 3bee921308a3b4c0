# SPDX-License-Identifier: GPL-2.0
"""reload_client.py ADDRESS CONNECTIONS FILE: ask on all connections again and again, until FILE.stop is there.

FILE has the number of answers of the connection that has fewest. A connection that ends, or a wrong byte, is said
and makes the exit status 1.
"""
import http.client
import os
import sys
import threading
import time

ROOT = os.path.dirname(sys.argv[3])
BODIES = {}
for name in ("small", "middle", "large"):
    with open(os.path.join(ROOT, name), "rb") as file:
        BODIES[name] = file.read()
NAMES = ("small", "middle", "small", "large")
address, connections, asked = sys.argv[1], int(sys.argv[2]), sys.argv[3]
answers, nodes, wrong = [0] * connections, [""] * connections, []


def ask(i):
    """Where HTTPConnection would connect anew, it fails."""
    conn = http.client.HTTPConnection(address, timeout=120)
    conn.connect()
    conn.auto_open = 0
    while not os.path.exists(asked + ".stop"):
        name = NAMES[(answers[i] + i) % len(NAMES)]
        conn.request("GET", "/" + name)
        got = conn.getresponse()
        node = got.getheader("X-Node")
        # Slowly, so that many are amid an answer at any time.
        body = b""
        while part := got.read(30000):
            body += part
            time.sleep(0.05)
        if got.status != 200 or body != BODIES[name]:
            raise AssertionError("%s: status %s, %d bytes" % (name, got.status, len(body)))
        if nodes[i] and node != nodes[i]:
            raise AssertionError("another node than before")
        nodes[i] = node
        answers[i] += 1
        time.sleep(0.1)


def tries(i):
    try:
        ask(i)
    except Exception as error:      # pylint: disable=broad-except
        wrong.append("connection %d after %d answers: %r" % (i, answers[i], error))


threads = [threading.Thread(target=tries, args=(i,)) for i in range(connections)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    with open(asked + ".new", "w", encoding="ascii") as file:
        file.write("%d\n" % min(answers))
    os.rename(asked + ".new", asked)
    time.sleep(0.2)
for line in wrong:
    print("# " + line)
by = " and ".join(sorted(set(filter(None, nodes))))
print("# %d answers of %s on %d connections" % (sum(answers), by, connections))
sys.exit(bool(wrong))
