#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# outside.sh [tls]: the guest beside the counted one: a client and two back-ends in namespaces, bridged to eth1.
# With `tls` the links are encrypted, and port 8443 takes connections with their keys. Then agent.py runs what the host
# says.
set -euo pipefail

vip=10.77.0.200
tls=${1:-}
here=$(dirname "$(readlink -f "$0")")
www=/run/www
mkdir -p $www /run/etc
for size in 64 1024 8192 65536 1048576; do
	head -c $size /dev/zero | tr '\0' x >$www/f$size
done

ip link add br0 type bridge forward_delay 0
ip link set br0 up
ip link set eth1 master br0 up

member() {
	ip netns add "$1"
	ip link add "$1" type veth peer name eth0 netns "$1"
	ip link set "$1" master br0 up
	# The segment of the counted guest has no offloads: nothing larger than a frame may come to it.
	ip netns exec "$1" ethtool -K eth0 tso off gso off gro off >/dev/null 2>&1 || true
	ip -n "$1" link set lo up
	ip -n "$1" addr add "$2/24" dev eth0
	ip -n "$1" link set eth0 up
}

backend() {
	member "$1" "$2"
	ip netns exec "$1" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
		net.ipv4.conf.eth0.rp_filter=0 net.ipv4.conf.all.rp_filter=0
	ip -n "$1" addr add $vip/32 dev lo
	cat >"/run/etc/$1.conf" <<-END
	worker_processes 1; user root; pid /run/$1.pid; error_log /run/$1.error;
	events { worker_connections 4096; }
	http {
		access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600s;
		open_file_cache max=100;
		server { listen 80 backlog=4096; listen 8443 backlog=4096; root $www; }
	}
	END
	ip netns exec "$1" nginx -c "/run/etc/$1.conf" -e "/run/$1.error"
	if modprobe handoff 2>/dev/null; then
		ip netns exec "$1" flotilla local set name "$1" address "$2" insecure on
		ip netns exec "$1" flotilla service add "$vip"
		ip netns exec "$1" flotilla node add fe address 10.77.0.1 role frontend ${tls:+auth x509}
	fi
}

member client 10.77.0.100
if [ -n "$tls" ]; then
	modprobe -a aesni_intel tls
fi
backend be1 10.77.0.11
backend be2 10.77.0.12
[ -z "$tls" ] || python3 "$here/link.py" be1 be2 &
exec python3 "$here/agent.py" 8090
