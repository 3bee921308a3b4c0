# SPDX-License-Identifier: GPL-2.0
"""What is measured: servers, clients, policies, loads. README.md says why.

serve: options of each node's server (serve.c); offer: of the clients (offer.c); open: whether loads are connections a
second or clients; configs: how connections come to the nodes (split) and what moves (policies of node 0, 1, ...).
"""
SMALL = "size", "below=10240"
MEDIUM = "size", "from=10240", "below=102400", "again=3600"
LARGE = "size", "from=102400", "again=3600"

# They come to the front-end, which gives all to node 0.
FRONT = "0,0,0,1"

# One request takes 10 ms of a node, so a node serves 100 a second.
ONE_FILE = "-w 32 -c 10000"
# 1 ms and 0.3 ms for each KB: 180 a second; what is not in memory costs 50 ms and 0.5 ms for each KB of the disk.
WEB = "-w 400 -b 1024 -c 1000 -k 300 -m 8000000 -s 50000 -d 500"


def admitting(split):
    """What the node that gets more lets in beyond its places, it may give to the other."""
    return {"plain": {"nodes": 2, "split": split},
            **{f"admit {n}": {"nodes": 2, "split": split, "policies": {0: ("simple", f"admit={n}", "be2")}}
               for n in (32, 64)}}


EXPERIMENTS = {
    "simple": {
        "open": True, "loads": (20, 50, 80, 100, 120, 150, 200), "warm": 5, "seconds": 20,
        "serve": (ONE_FILE + " -b 64", ONE_FILE + " -b 16"),
        "offer": ("-1", "/0/1/1", "-o", "5"),
        "configs": {
            "single": {"nodes": 1, "split": "1"},
            "moved": {"nodes": 2, "split": "1", "policies": {0: ("simple", "be2")}},
            "front-end": {"nodes": 2, "split": FRONT, "policies": {0: ("simple", "be2")}},
        },
    },
    "rejected": {
        "open": True, "loads": (20, 90, 150), "warm": 5, "seconds": 20,
        "serve": (ONE_FILE + " -b 64", ONE_FILE + " -b 64"),
        "offer": ("-1", "/0/1/1", "-o", "5"),
        "configs": {
            "single": {"nodes": 1, "split": "1"},
            "rejected": {"nodes": 2, "split": "1", "policies": {0: ("simple", "be2")},
                         "sysctls": {1: {"net.flotilla.adopt": 0}}},
            "delayed": {"nodes": 1, "split": "1", "policies": {0: ("delayed",)},
                        "sysctls": {0: {"net.flotilla.migrate_wait_ms": 4}}},
        },
    },
    "two-nodes": {
        "open": False, "loads": (40, 80, 120, 160), "warm": 50, "seconds": 50,
        "serve": (WEB, WEB),
        "offer": ("-f", "20", "-i", "1", "-o", "60"),
        "configs": {
            "round-robin": {"nodes": 2, "split": "1,1"},
            "moved": {"nodes": 2, "split": "1,1", "policies": {0: (*SMALL, "again=3600", "be2")}},
        },
    },
    "three-nodes": {
        "open": False, "loads": (80, 120, 180, 240), "warm": 50, "seconds": 50,
        "serve": (WEB, WEB, WEB),
        "offer": ("-f", "20", "-i", "1", "-o", "60"),
        "configs": {
            "round-robin": {"nodes": 3, "split": "1,1,1"},
            "moved": {"nodes": 3, "split": "1,1", "policies": {0: (*SMALL, "again=3600", "be3"),
                                                               1: (*SMALL, "again=3600", "be3")}},
        },
    },
    "kept-two-nodes": {
        "open": False, "loads": (5, 10, 20, 40, 80), "warm": 50, "seconds": 50,
        "serve": (WEB, WEB),
        "offer": ("-f", "20", "-i", "1", "-o", "60", "-k", "8"),
        "configs": {
            "round-robin": {"nodes": 2, "split": "1,1"},
            "moved": {"nodes": 2, "split": "1,1", "policies": {0: (*MEDIUM, "be2")}},
            "both ways": {"nodes": 2, "split": "1,1", "policies": {0: (*MEDIUM, "be2"),
                                                                   1: (*SMALL, "again=3600", "be1")},
                          "sysctls": {at: {"net.flotilla.migrate_max_hops": 64} for at in (0, 1)}},
        },
    },
    "kept-three-nodes": {
        "open": False, "loads": (10, 20, 40, 80, 120), "warm": 50, "seconds": 50,
        "serve": (WEB, WEB, WEB),
        "offer": ("-f", "20", "-i", "1", "-o", "60", "-k", "8"),
        "configs": {
            "round-robin": {"nodes": 3, "split": "1,1,1"},
            "moved": {"nodes": 3, "split": "1,1", "policies": {0: (*LARGE, "be3"), 1: (*LARGE, "be3")}},
        },
    },
    "admission": {
        "open": True, "loads": (90, 120, 150, 180, 200, 240, 300), "warm": 5, "seconds": 20,
        "serve": ("-w 8 -c 10000 -b 64", "-w 8 -c 10000 -b 64"),
        "offer": ("-1", "/0/1/1", "-o", "5"),
        "configs": admitting("67,33"),
    },
    "admission-75": {
        "open": True, "loads": (120, 150, 200, 240, 300), "warm": 5, "seconds": 20,
        "serve": ("-w 8 -c 10000 -b 64", "-w 8 -c 10000 -b 64"),
        "offer": ("-1", "/0/1/1", "-o", "5"),
        "configs": admitting("75,25"),
    },
}
