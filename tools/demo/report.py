# SPDX-License-Identifier: GPL-2.0
"""The demo's report: text from what was measured."""
import cached
import measure
import status
from network import SERVICE

WIDTH = 78


def heading(text):
    return f"\n{text}\n{'-' * len(text)}"


def table(rows):
    """Columns as wide as they must be; all but the first are right-aligned."""
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(str(cell).ljust(w) if not i else str(cell).rjust(w)
                             for i, (cell, w) in enumerate(zip(row, widths))) for row in rows]


def megabytes(count):
    return f"{count / 1e6:.1f} MB"


def clients(runs):
    rows = [("policy", "requests", "per s", "median", "p99", "errors", "bodies", "from disk",
             "from memory")]
    for r in runs:
        rows.append((r["policy"], r["requests"], f"{r['requests'] / r['seconds']:.0f}",
                     f"{r['median_ms']:.0f} ms", f"{r['p99_ms']:.0f} ms",
                     sum(r["errors"].values()), megabytes(r["bytes"]), megabytes(r["disk_bytes"]),
                     f"{100 * r['from_memory']:.0f} %"))
    lines = [heading("What the same load got under two policies")] + table(rows)
    for r in runs:
        lines.append(f"  {r['policy']}: {r['warm'][0]} requests before, for {r['warm'][1]} targets")
        kinds = [f"{kind} {n}" for kind, n in r["errors"].items() if n]
        if kinds:
            lines.append(f"  errors that wrk saw under {r['policy']}: {', '.join(kinds)}")
    return lines


def nodes(runs, backends):
    rows = [["requests answered by"] + [f"{b.name} ({b.server})" for b in backends]]
    for r in runs:
        rows.append([r["policy"]] + [r["nodes"].get(b.name, 0) for b in backends])
        strangers = set(r["nodes"]) - {b.name for b in backends}
        if strangers:
            rows[-1][0] += f" (and {sum(r['nodes'][s] for s in strangers)} by nobody known)"
    return [heading("Who answered, as the answers themselves say")] + table(rows)


def handoffs(runs):
    lines = [heading("Handoffs")]
    for r in runs:
        c = r["counters"]
        refused = {n[14:]: v for n, v in c.items() if n.startswith("HandoffRefused") and v}
        spread = measure.latency(c)
        lines.append(f"  {r['policy']}: {c.get('HandoffDone', 0)} done, "
                     f"{c.get('HandoffFailed', 0)} failed"
                     + "".join(f", {v} refused: {n}" for n, v in refused.items()))
        lines.append(f"    the servers saw {r['from_client']} requests of the client itself, "
                     f"{r['from_front_end']} through the front-end")
        if len(spread) == 2:
            lines.append(f"    half of them took at most {spread[0]} us, 99 % at most {spread[1]} us"
                         " (on an emulated machine)")
        lines.append(f"    {c.get('ForwardPackets', 0)} packets of clients (ACKs) forwarded to nodes")
    return lines


def around(runs):
    lines = [heading("What went around the front-end")]
    for r in runs:
        got, sent = r["received_by_client"], r["sent_by_front_end"]
        lines.append(f"  {r['policy']}: clients received {megabytes(got)}; the front-end's interface "
                     f"sent {megabytes(sent)} in all")
        lines.append(f"    (SYN-ACKs, handoffs, forwarded ACKs), so at least "
                     f"{megabytes(max(0, got - sent))} = {100 * max(0, got - sent) / got:.0f} % "
                     "never touched it")
    return lines


def places(explained):
    rows = [("target", "node", "because")]
    for url, answer in explained:
        rows.append((url, answer.get("node") or "-", answer.get("why") or answer.get("text") or ""))
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return ([heading("Where targets live now, and why (flotilla explain)")]
            + [f"  {a.ljust(widths[0])}  {b.ljust(widths[1])}  {c}" for a, b, c in rows])


def encrypted(seen, backends):
    """What came by HTTPS, and what a listener saw of it."""
    load = seen["load"]
    rows = [["requests answered by"] + [f"{b.name} ({b.server})" for b in backends]]
    for name, by in (("curl", seen["nodes"]), ("wrk", load["nodes"])):
        rows.append([name] + [by.get(b.name, 0) for b in backends])
    lines = [heading("HTTPS: lardd shakes hands, the back-ends' kernels encrypt")] + table(rows)
    lines.append(f"  {seen['right']} of {seen['asked']} documents arrived by HTTPS with the bytes they have on disk, "
                 "certificate verified")
    for name, passed in (("curl", seen["passed"]), ("wrk", seen["load_passed"])):
        taken = ", ".join(f"{b.name} {passed[b.name]}" for b in backends)
        lines.append(f"  {name}: {passed['handed off']} connections handed off with their keys (encrypted by {taken}), "
                     f"{passed['proxied']} proxied")
    lines += [
        f"  wrk: {load['requests']} requests, {load['requests'] / load['seconds']:.0f} per s, median "
        f"{load['median_ms']:.0f} ms, {sum(load['errors'].values())} errors",
        f"  seen on the segment while curl fetched: {seen['frames']} frames, {megabytes(seen['bytes'])}, "
        f"{seen['lost']} lost",
        f"    {seen['recognized']} of curl's {seen['connections']} TLS connections, by their client random",
        f"    {seen['plain_seen']} of {seen['plain']} texts of requests and pages; by HTTP "
        f"{seen['plain_by_http']} of them",
        f"    {seen['keys_seen']} of these: {seen['secrets']} secrets of curl's key log, {seen['made']} keys and IVs "
        "made of them, the links' key, the certificate's key"]
    return lines + [f"  WRONG: {text}" for text in seen["wrong"]]


def listed(counts):
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def emptied(seen):
    """A back-end left, its server was replaced."""
    kept, said, move = seen["kept"], seen["drain"]["said"], seen["move"]["said"]
    both = kept + seen["direct"]
    return [
        heading("A node is emptied, a server restarted, under load"),
        f"  {len(kept)} clients, a connection each, which they keep: {listed(seen['before'])}",
        f"  fe# flotilla node drain {seen['from']} --move ...: moved {said.get('moved')}, to {listed(seen['to'])}",
        f"  then its server was stopped and started; its clients were at {listed(seen['after'])}",
        f"  {seen['from']}# flotilla process move {seen['old']} {seen['new']}: moved {move.get('moved')} of "
        f"{len(seen['direct'])} that had come to it directly",
        f"  clients: {sum(v['requests'] for v in both)} requests, {sum(bool(v['error']) for v in both)} failed, over "
        f"the same {len(both)} connections; each body was compared ({seen['seconds']:.0f} s)",
    ]


def died(seen):
    """The front-end did."""
    kinds = {kind: [v for v in seen["seen"] if v["kind"] == kind] for kind in ("slow", "kept", "half")}
    whole = [v for v in kinds["slow"] if not v["error"]]
    lost = [v for v in kinds["half"] if v["error"]]
    return [
        heading("The front-end dies, its standby takes over"),
        f"  handed off before: {listed(seen['before'])}; then the front-end's cable was pulled",
        f"  fe2# flotilla takeover {SERVICE}: took over {listed(seen['taken'])}",
        f"  {len(whole)} of {len(kinds['slow'])} slow downloads ({megabytes(seen['bytes'])} in all) ended whole, "
        "with the bytes they have on disk",
        f"  {len(kinds['kept'])} kept connections: {sum(v['requests'] for v in kinds['kept'])} requests, "
        f"{sum(bool(v['error']) for v in kinds['kept'])} failed",
        f"  lost: {len(lost)} of {len(kinds['half'])} that the dead one had accepted and not yet dispatched "
        "(half a request); such a client must come again",
        f"  who comes anew is {'served by the standby' if seen['new'] else 'NOT SERVED'} ({seen['seconds']:.0f} s)",
    ]


def kept(seen):
    """The front-end's kernel answered."""
    return [
        heading("The kernel answers, a program takes a page back"),
        f"  {seen['target']}, the first time: a back-end answers, lardd keeps it, and gives it to afpa.ko",
        f"  then wrk: {seen['answered']} requests in {cached.SECONDS} s; of all in that time the kernel answered "
        f"{seen['hits']}, back-ends {seen['asked']}",
        f"  fe# flotilla cache del {seen['target']}: the next one is "
        f"{'the kernel' if seen['third'][1] else 'a back-end'}'s again",
    ]


def acts(zeroth, first, second):
    """What was done to the cluster, and what its clients saw of it."""
    return "\n".join(line for seen, lines in ((zeroth, kept(zeroth)), (first, emptied(first)), (second, died(second)))
                     for line in lines + [f"  WRONG: {text}" for text in seen["wrong"]])


def status_pages(pages, port):
    """What lardd's own page said, of the front-end and then of its standby."""
    return "\n".join([heading(f"The status page: http://127.0.0.1:{port}/")] + [line for page in pages for line in (
        status.lines(page) + [f"  WRONG: {text}" for text in page["wrong"]])])


def text(cluster, runs, explained, right, asked, by_https):
    lines = clients(runs) + nodes(runs, cluster.backends) + places(explained) + handoffs(runs)
    lines += around(runs)
    lines += [heading("Right bodies"), f"  {right} of {asked} documents arrived with the bytes they "
              "have on disk (SHA-256)"]
    lines += encrypted(by_https, cluster.backends)
    return "\n".join(lines)
