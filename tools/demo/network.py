# SPDX-License-Identifier: GPL-2.0
"""A cluster's network in one kernel: namespaces on a bridge, the service address on all servers.

  client 10.1.0.100 --+
  fe     10.1.0.1   --+
  fe2    10.1.0.2   --+-- bridge 10.1.0.254 -- the guest's own eth0
  be1..  10.1.0.11..--+
"""
import subprocess

SERVICE = "10.1.0.80"
BRIDGE = "br0"
BRIDGE_ADDRESS = "10.1.0.254"
FIXED = {"fe": "10.1.0.1", "fe2": "10.1.0.2", "client": "10.1.0.100"}


def run(*command, text=None):
    """Output of a command that must succeed."""
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Namespace:
    """A network namespace with one interface, eth0, on the bridge."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        run("ip", "-batch", "-", text=f"""netns add {name}
link add {name}-br type veth peer eth0 netns {name}
link set {name}-br master {BRIDGE} up
""")
        run("ip", "-n", name, "-batch", "-", text=f"""link set lo up
address add {address}/24 dev eth0
link set eth0 up
route add default via {BRIDGE_ADDRESS}
""")

    def command(self, *command):
        return ("ip", "netns", "exec", self.name, *command)

    def run(self, *command, text=None):
        return run(*self.command(*command), text=text)

    def start(self, *command, log=None, group=None):
        """A process that goes on, in control group @group; its output into @log."""
        command = self.command(*command)
        if group:   # before the namespace: that has a /sys of its own, without control groups
            command = ("sh", "-c", f'echo 0 >{group}/cgroup.procs && exec "$@"', "sh", *command)
        with open(log or "/dev/null", "ab") as out:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def bytes(self, direction):
        """What went through eth0, "rx" or "tx"."""
        return int(self.run("cat", f"/sys/class/net/eth0/statistics/{direction}_bytes"))

    def take_service_address(self):
        """A front-end has it on its interface, for all to see."""
        self.run("ip", "address", "add", f"{SERVICE}/32", "dev", "eth0")

    def cut(self):
        """Nothing comes to it any more, or from it."""
        run("ip", "link", "set", f"{self.name}-br", "down")

    def hold_service_address(self):
        """A back-end has it on its loopback and does not answer ARP for it."""
        self.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1",
                 "net.ipv4.conf.all.arp_announce=2")
        self.run("ip", "address", "add", f"{SERVICE}/32", "dev", "lo")


def build(names):
    """Namespaces by name; front-ends and client have fixed addresses, the others count from 11."""
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    found, number = {}, 11
    for name in names:
        address = FIXED.get(name)
        if not address:
            address = f"10.1.0.{number}"
            number += 1
        found[name] = Namespace(name, address)
    return found


def open_to_host(interface="eth0"):
    """What comes to ports 80 and 443 of the guest goes to the service address, as from a router."""
    run("ip", "address", "add", "10.0.2.15/24", "dev", interface)
    run("ip", "link", "set", interface, "up")
    run("ip", "route", "add", "default", "via", "10.0.2.2")
    run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    lead("service", "{ 80, 443 }", SERVICE, interface)


def lead(name, ports, to, interface="eth0"):
    """What comes to the guest's ports goes there; what NAME led to before is forgotten."""
    run("nft", "-f", "-", text=f"""table ip demo_{name}
delete table ip demo_{name}
table ip demo_{name} {{
    chain in {{
        type nat hook prerouting priority dstnat
        iifname "{interface}" tcp dport {ports} dnat to {to}
    }}
}}
""")
