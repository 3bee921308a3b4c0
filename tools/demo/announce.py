#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""announce ADDRESS: tell the neighbours at eth0 that the address is here now, as keepalived does (gratuitous ARP)."""
import socket
import struct
import sys
from pathlib import Path

ETH_P_ARP, REPLY, BROADCAST = 0x0806, 2, b"\xff" * 6


def main(address):
    mac = bytes.fromhex(Path("/sys/class/net/eth0/address").read_text().strip().replace(":", ""))
    ip = socket.inet_aton(address)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind(("eth0", ETH_P_ARP))
        sock.send(BROADCAST + mac + struct.pack("!HHHBBH", ETH_P_ARP, 1, 0x0800, 6, 4, REPLY) + mac + ip +
                  BROADCAST + ip)


if __name__ == "__main__":
    main(sys.argv[1])
