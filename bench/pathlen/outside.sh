#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# outside.sh [tls|front-end]: the guest beside the counted one: a client and two back-ends in namespaces, bridged to
# eth1. With `tls` the links are encrypted, and port 8443 takes connections with their keys. With `front-end` a namespace
# for that is there in place of the back-ends, of which the counted guest is the only one. Then agent.py runs what the
# host says.
set -euo pipefail

vip=10.77.0.200
what=${1:-}
here=$(dirname "$(readlink -f "$0")")
state=/run/etc
mkdir -p $state
# shellcheck source=bench/pathlen/member.sh
. "$here/member.sh"

ip link add br0 type bridge forward_delay 0
ip link set br0 up
ip link set eth1 master br0 up

member() {
	ip netns add "$1"
	ip link add "$1" type veth peer name eth0 netns "$1"
	ip link set "$1" master br0 up
	# The segment of the counted guest has no offloads: nothing larger than a frame may come to it.
	ip netns exec "$1" ethtool -K eth0 tso off gso off gro off >/dev/null 2>&1 || true
	# What is late is not lost: what a peer sends again is more work for who is counted.
	ip netns exec "$1" sysctl -qw net.ipv4.tcp_rto_min_us=60000000 net.ipv4.tcp_early_retrans=0
	ip -n "$1" link set lo up
	ip -n "$1" addr add "$2/24" dev eth0
	ip -n "$1" link set eth0 up
}

taker() {
	member "$1" "$2"
	backend "$1" "$2" eth0 ip netns exec "$1"
	! modprobe handoff 2>/dev/null || node "$1" "$2" "${what:+auth x509}" ip netns exec "$1"
}

bpftool prog load "$here/../../build/bench/patient.bpf.o" /sys/fs/bpf/patient
bpftool cgroup attach /sys/fs/cgroup cgroup_sock_ops pinned /sys/fs/bpf/patient
member client 10.77.0.100
if [ "$what" = front-end ]; then
	member fe 10.77.0.1
	ip -n fe addr add $vip/24 dev eth0
else
	[ -z "$what" ] || modprobe -a aesni_intel tls
	files
	taker be1 10.77.0.11
	taker be2 10.77.0.12
	[ -z "$what" ] || python3 "$here/link.py" be1 be2 &
fi
exec python3 "$here/agent.py" 8090
