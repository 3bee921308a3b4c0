#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Two namespaces that list each other get a link, in either order, over IPv4 and IPv6."""
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fltnl import E                                     # noqa: E402
from netns import Net, flotilla                         # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

UP = E["FLT_NODE_UP"]


def pair(order, family):
    net = Net()
    a, b = net.add(1), net.add(2)
    fa, fb = flotilla(a), flotilla(b)
    addr, ip = ("addr4", net.ip4) if family == 4 else ("addr6", net.ip6)
    steps = {
        "a": lambda: fa.do("LOCAL_SET", local_name="a", **{"local_" + addr: ip(1)}),
        "b": lambda: fb.do("LOCAL_SET", local_name="b", **{"local_" + addr: ip(2)}),
        "A": lambda: fa.do("NODE_NEW", node_name="b", **{"node_" + addr: ip(2)}),
        "B": lambda: fb.do("NODE_NEW", node_name="a", **{"node_" + addr: ip(1)}),
    }
    for step in order:
        steps[step]()
    wait(lambda: fa.node("b")["NODE_STATE"] == UP)
    wait(lambda: fb.node("a")["NODE_STATE"] == UP)
    assert fa.stat("LinkUp") == 1 and fb.stat("LinkUp") == 1
    net.close()


@claim
def link_up_lower_side_first():
    pair("aAbB", 4)


@claim
def link_up_higher_side_first():
    pair("bBaA", 4)


@claim
def link_up_nodes_listed_before_identities():
    pair("ABba", 4)


@claim
def link_up_over_ipv6():
    pair("abAB", 6)


if __name__ == "__main__":
    main_with("flotilla")
