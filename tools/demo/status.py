# SPDX-License-Identifier: GPL-2.0
"""lardd's status page: whose it is now, for a browser outside of the guest, and what it says, for the report."""
import json

import network

PORT = 9182
TARGETS = 3


def address_of(ns):
    """Of the front-end's own address: the service's is for everybody."""
    return f"{ns.address}:{PORT}"


def show(ns):
    """From now on that front-end's page is what the guest's port leads to."""
    network.lead("status", PORT, address_of(ns))


def look(ns):
    """What the page and its JSON say, and what is wrong with that. A front-end asks itself."""
    url = f"http://{address_of(ns)}"
    page = ns.run("curl", "-sf", "-m", "20", url + "/")
    says = json.loads(ns.run("curl", "-sf", "-m", "20", url + "/status.json"))
    return {"name": ns.name, "url": url, "says": says, "page": len(page), "wrong": complaints(page, says)}


def complaints(page, says):
    up = [node["name"] for node in says["nodes"] if node["eligible"]]
    found = []
    if len(up) < len(says["nodes"]):
        found.append(f"of {len(says['nodes'])} nodes {', '.join(up) or 'none'} get requests")
    found += [f"the page lacks node {node['name']}" for node in says["nodes"]
              if f'<th scope="row">{node["name"]}<' not in page]
    if not says["targets"] or not says["counters"]["LardRequests"]["total"]:
        found.append("it knows of no request")
    return found


def lines(seen):
    """A few of its numbers."""
    says, latency = seen["says"], seen["says"]["latency"]["handoff"]
    rates = says["counters"]
    text = [f"  {seen['name']}# curl {seen['url']}/status.json",
            f"    policy {says['policy']}, mode {says['mode']}: {rates['LardRequests']['rate']:.0f} requests a second, "
            f"{rates['LardHandedOff']['rate']:.0f} handed off, {rates['LardProxied']['rate']:.0f} proxied; "
            f"{says['outstanding']} under way of {says['limit']}"]
    if latency["requests"]:
        text.append(f"    handoffs of the last minute: {latency['requests']}, half in {1000 * latency['p50']:.1f} ms, "
                    f"99 % in {1000 * latency['p99']:.1f} ms")
    text += [f"    {node['name']} {node['state']} ({node['why']}), load {node['load']} (T_low {node['t_low']}, T_high "
             f"{node['t_high']}), {node['rate']:.0f} requests a second, {node['chosen']} in all"
             for node in says["nodes"]]
    text += [f"    {of['target']}: {of['requests']} requests, on {', '.join(of['nodes']) or 'no node'}"
             for of in says["targets"][:TARGETS]]
    return text
