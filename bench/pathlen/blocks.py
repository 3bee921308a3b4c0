# SPDX-License-Identifier: GPL-2.0
"""Where a counted guest executes, exactly: instructions by function, from profile.c's QEMU plugin."""
import bisect
import collections
import socket

from counted import TOP

PLUGIN = TOP / "build/bench/profile.so"


class Symbols:
    """The guest's /proc/kallsyms."""

    def __init__(self, text):
        table = []
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwW":
                table.append((int(words[0], 16), words[2], words[3].strip("[]") if len(words) > 3 else ""))
        table.sort()
        self.addresses = [t[0] for t in table]
        self.table = table

    def find(self, address):
        """Function, module, whether @address is where it begins."""
        if address < 1 << 63:
            return "(user space)", "(user space)", False
        i = bisect.bisect_right(self.addresses, address) - 1
        start, name, module = self.table[i] if i >= 0 else (0, "?", "")
        return name, module or "kernel", address == start


class Profile:
    """The plugin's end of the socket."""

    def __init__(self, path):
        self.file = None
        self.path = path

    @staticmethod
    def qemu(path):
        """QEMU's arguments that load the plugin."""
        return f"-plugin file={PLUGIN},socket={path}"

    def ask(self, what):
        if not self.file:
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.path)
            self.file = s.makefile("rw", encoding="ascii")
        self.file.write(what + "\n")
        self.file.flush()
        lines = []
        while (line := self.file.readline().strip()) != ".":
            if not line:
                raise RuntimeError("the plugin has gone")
            lines.append(line)
        return lines

    def clear(self):
        self.ask("clear")

    def dump(self):
        """Address, instructions and runs of each block since clear()."""
        return [(int(a, 16), int(n), int(runs)) for a, n, runs in map(str.split, self.ask("dump"))]


# Calls that say how the work went: wake-ups, switches, packets, allocations, interrupts.
COUNTED = frozenset((
    "try_to_wake_up", "__schedule", "do_syscall_64", "asm_common_interrupt", "asm_sysvec_apic_timer_interrupt",
    "__queue_work", "process_one_work", "worker_thread", "iowrite16", "start_xmit", "netif_receive_skb_list_internal",
    "tcp_v4_rcv", "__tcp_transmit_skb", "kmem_cache_alloc_noprof", "__kmalloc_noprof", "kfree", "call_rcu",
    "mod_timer", "__mod_timer", "do_epoll_wait", "ep_poll_callback", "rcu_core", "__do_softirq",
    "handle_softirqs", "hrtimer_start_range_ns", "tick_nohz_idle_exit"))


def table_of(blocks, symbols, requests, lines=60):
    """Per request: instructions by module, and by function with its calls."""
    functions, modules, calls = (collections.Counter() for _ in range(3))
    for address, instructions, runs in blocks:
        name, module, begins = symbols.find(address)
        functions[name, module] += instructions
        modules[module] += instructions
        if begins:
            calls[name, module] += runs
    return {"instructions": round(sum(modules.values()) / requests),
            "by module": {m: round(n / requests) for m, n in modules.most_common()},
            "by function: instructions, calls": [
                [name, module, round(n / requests), round(calls[name, module] / requests, 2)]
                for (name, module), n in functions.most_common(lines)],
            "calls": {name: round(calls[name, module] / requests, 2) for name, module in calls
                      if name in COUNTED}}
