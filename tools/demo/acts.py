# SPDX-License-Identifier: GPL-2.0
"""What is done to the cluster while clients use it: a server leaves, the front-end dies. Judged by the clients."""
import json
import subprocess
import time
from collections import Counter
from pathlib import Path

import measure
from network import SERVICE

HERE = Path(__file__).resolve().parent
PATIENCE = 60
KEPT, DIRECT, SLOW, HALF = 9, 4, 3, 2
# An answer that is not handed off in time is a proxy's: then all come again.
ATTEMPTS = 3


class Visitors:
    """Clients with one connection each (visitor.py)."""

    def __init__(self, cluster, site, targets, address=SERVICE, **kinds):
        words = [word for kind, number in kinds.items() for word in (f"--{kind}", str(number))]
        self.process = subprocess.Popen(
            cluster.client.command(str(HERE / "visitor.py"), address, str(site), *words, *targets),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hears()

    def hears(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the clients of an act ended")
        return line

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.hears()

    def end(self):
        found = json.loads(self.say("end"))
        self.process.wait()
        return found


def holds(ns, cluster):
    return len(ns.run("ss", "-Htn", "state", "established",
                      f"( sport = :80 and dst {cluster.client.address} )").splitlines())


def holders(cluster):
    """Connections of the client that each back-end's kernel has: where they are, not who forwards them."""
    return {b.name: holds(b.ns, cluster) for b in cluster.backends}


def arrived(cluster, count):
    """Connections that the front-end itself has, once they are so many."""
    for _ in range(50):
        found = holds(cluster.fe, cluster)
        if found >= count:
            break
        time.sleep(0.1)
    return found


def invite(cluster, site, targets, count, **kinds):
    """Visitors of the service, all of whose connections are handed off; and who has them."""
    for _ in range(ATTEMPTS):
        visitors = Visitors(cluster, site, targets, **kinds)
        found = holders(cluster)
        if sum(found.values()) == count:
            break
        visitors.end()
    else:
        raise RuntimeError(f"of {count} connections {sum(found.values())} were handed off")
    return visitors, found


def tool(ns, *words):
    """What a command says, and whether all of it was done."""
    done = subprocess.run(ns.command("flotilla", "-j", *words), capture_output=True, text=True, check=False)
    failed = done.returncode and (done.stderr.strip() or done.returncode)
    return {"failed": failed, "said": json.loads(done.stdout or "{}")}


def failures(seen, kind):
    """How many of each."""
    return dict(Counter(v["error"] for v in seen if v["kind"] == kind and v["error"]))


def leaves(cluster, site, urls):
    """Back-end 1 is emptied while clients ask, its server restarted; then the server is replaced under its clients."""
    begin, be = time.monotonic(), cluster.backends[0]
    others = [b.name for b in cluster.backends[1:]]
    cluster.fe.run("flotilla", "policy", "set", "wrr")
    visitors, before = invite(cluster, site, urls, KEPT, kept=KEPT)
    drain = tool(cluster.fe, "node", "drain", be.name, "--move", "--to", ",".join(others),
                 "--idle", "2000", "--wait", str(PATIENCE))
    cluster.stop_server(be)
    visitors.say("more 2")
    after = holders(cluster)
    cluster.start_server(be)
    cluster.fe.run("flotilla", "node", "set", be.name, "admin", "active")
    seen = visitors.end()
    found = {"kept": seen, "before": before, "after": after, "drain": drain, "from": be.name,
             "to": Counter(v["last"] for v in seen if v["first"] == be.name and v["last"] != be.name)}
    found.update(replaced(cluster, site, urls, be))
    found["seconds"] = time.monotonic() - begin
    found["wrong"] = [text for is_so, text in wrong_of_leaving(found) if is_so]
    return found


def replaced(cluster, site, urls, be):
    """They come to the back-end itself: what the front-end has given is emptied, not moved."""
    visitors = Visitors(cluster, site, urls, address=be.ns.address, kept=DIRECT)
    old = cluster.server(be)
    new = cluster.start_server(be, "second")
    move = tool(be.ns, "process", "move", str(old.pid), str(new.pid), "--idle", "2000", "--wait", str(PATIENCE))
    cluster.stop_server(be, old)
    visitors.say("more 2")
    return {"direct": visitors.end(), "move": move, "old": old.pid, "new": new.pid}


def wrong_of_leaving(f):
    had, moved = f["before"][f["from"]], f["drain"]["said"].get("moved")
    failed = failures(f["kept"] + f["direct"], "kept")
    return [
        (failed, f"requests failed: {failed}"),
        (f["drain"]["failed"], f"the node was not emptied: {f['drain']['failed']}"),
        (not had or moved != had or f["after"][f["from"]], f"of {had} connections {moved} moved"),
        (sum(f["to"].values()) != had, f"clients of {had} connections should have seen another node, "
                                       f"{sum(f['to'].values())} did"),
        (f["move"]["failed"] or f["move"]["said"].get("moved") != DIRECT,
         f"of {DIRECT} connections to the server that was replaced {f['move']['said'].get('moved')} moved: "
         f"{f['move']['failed']}"),
    ]


def dies(cluster, site, urls):
    """The front-end's cable is pulled while downloads go on; the standby gets the address and asks who has what."""
    begin = time.monotonic()
    large = sorted(urls[3:], key=lambda url: -measure.path_of(site, url).stat().st_size)[:SLOW]
    kept = KEPT - SLOW
    visitors, before = invite(cluster, site, large, kept + SLOW, kept=kept, slow=SLOW, half=HALF)
    cluster.standby.run("flotilla", "takeover", SERVICE, "--prepare")
    under_way = int(visitors.say("half"))
    accepted = arrived(cluster, HALF)
    cluster.fe.cut()
    cluster.standby.take_service_address()
    cluster.standby.run(str(HERE / "announce.py"), SERVICE)
    take = tool(cluster.standby, "takeover", SERVICE)
    cluster.dispatch_from_standby()
    visitors.say("more 1")
    seen = visitors.end()
    found = {"seen": seen, "before": before, "take": take, "under_way": under_way, "accepted": accepted,
             "new": cluster.answers(), "bytes": sum(measure.path_of(site, url).stat().st_size for url in large),
             "seconds": time.monotonic() - begin}
    found["taken"] = {row["node"]: row["taken"] for row in take["said"] or []}
    found["wrong"] = [text for is_so, text in wrong_of_dying(found) if is_so]
    return found


def wrong_of_dying(f):
    return [
        (f["under_way"] != SLOW or f["accepted"] < HALF,
         f"when the cable was pulled {f['under_way']} downloads and {f['accepted']} half requests were under way"),
        (failures(f["seen"], "slow"), f"downloads did not end whole: {failures(f['seen'], 'slow')}"),
        (failures(f["seen"], "kept"), f"requests on kept connections failed: {failures(f['seen'], 'kept')}"),
        (f["take"]["failed"], f"flotilla takeover: {f['take']['failed']}"),
        (f["taken"] != f["before"], f"taken over {f['taken']} of {f['before']}"),
        (not f["new"], "the standby serves nobody new"),
    ]


def run(cluster, site, urls):
    """Both; the second leaves the cluster to the standby."""
    return [leaves(cluster, site, urls[3:23]), dies(cluster, site, urls)]
