#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# front-end.sh: the counted guest holds the front-end and nothing else. agent.py starts one at a time by
# `front-end.sh start KIND` and ends it by `front-end.sh stop`; snapshot.py counts.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
top=$(readlink -f "$here/../..")
vip=10.77.0.200
backends="be1:10.77.0.11 be2:10.77.0.12"
state=/run/front-end
mkdir -p $state

haproxy_conf() {
	cat <<-END
	global
		nbthread 1
		maxconn 4096
	defaults
		mode http
		timeout connect 60s
		timeout client 600s
		timeout server 600s
		http-reuse always
		balance roundrobin
	listen proxy
		bind $vip:80
	END
	for backend in $backends; do
		echo "	server ${backend%%:*} ${backend#*:}:80"
	done
}

links_up() {
	local backend
	for backend in $backends; do
		flotilla -j node show "${backend%%:*}" | grep -q '"state": *"up"' || return 1
	done
}

# The MAC header of each back-end, as bytes for bpftool.
header_to() {
	local mac
	ping -q -c1 -W10 "$1" >/dev/null
	mac=$(ip -j neigh show "$1" dev eth1 | grep -o '"lladdr":"[^"]*"' | cut -d'"' -f4)
	echo "${mac//:/ } $(tr ':' ' ' </sys/class/net/eth1/address) 08 00"
}

headers_fill() {
	local backend n=0
	for backend in $backends; do
		# shellcheck disable=SC2046
		bpftool map update name headers key hex 0$n 00 00 00 value hex $(header_to "${backend#*:}")
		n=$((n + 1))
	done
}

start() {
	case $1 in
	haproxy)
		haproxy_conf >$state/haproxy.cfg
		haproxy -D -p $state/pid -f $state/haproxy.cfg
		;;
	ipvs)
		modprobe ip_vs_rr
		ipvsadm -A -t $vip:80 -s rr
		for backend in $backends; do
			ipvsadm -a -t $vip:80 -r "${backend#*:}" -g
		done
		;;
	xdp)
		ip link set eth1 xdpdrv obj "$top/build/bench/shortcut.bpf.o" sec xdp
		headers_fill
		;;
	tc)
		tc qdisc add dev eth1 clsact
		tc filter add dev eth1 ingress bpf da obj "$top/build/bench/shortcut.bpf.o" sec tc
		headers_fill
		;;
	handoff)
		modprobe handoff
		flotilla local set name fe address 10.77.0.1
		for backend in $backends; do
			flotilla node add "${backend%%:*}" address "${backend#*:}"
		done
		for _ in $(seq 300); do
			! links_up || break
			sleep 0.2
		done
		links_up
		# The other guest may have to wait for a processor.
		sysctl -qw net.flotilla.handoff_timeout_ms=10000
		echo wrr >/sys/class/flotilla/dispatch/policy
		printf 'listen %s:80\ncontrol %s\n' $vip $state/lardd.sock >$state/lardd.conf
		lardd -c $state/lardd.conf --foreground >$state/lardd.log 2>&1 &
		echo $! >$state/pid
		for _ in $(seq 100); do
			! flotilla explain http://$vip/ socket $state/lardd.sock 2>/dev/null | grep -q '^node: ' || break
			sleep 0.1
		done
		;;
	*) echo "front-end.sh: no front-end called '$1'" >&2; exit 2 ;;
	esac
}

stop() {
	local backend module

	[ ! -s $state/pid ] || kill "$(cat $state/pid)" || true
	rm -f $state/pid
	! command -v ipvsadm >/dev/null || ! grep -q '^ip_vs ' /proc/modules || ipvsadm -C
	ip link set eth1 xdpdrv off
	tc qdisc del dev eth1 clsact 2>/dev/null || true
	if [ -d /sys/module/flotilla ]; then
		for backend in $backends; do
			flotilla node del "${backend%%:*}" || true
		done
	fi
	# Nothing of one, least of all its hooks, stays in the way of the next one's packets.
	for module in handoff flotilla ip_vs_rr ip_vs nf_conntrack nf_defrag_ipv6 nf_defrag_ipv4; do
		[ ! -d /sys/module/$module ] || rmmod $module
	done
}

case ${1:-serve} in
start) start "$2" ;;
stop) stop ;;
serve)
	ip addr add 10.77.0.1/24 dev eth1
	ip addr add $vip/24 dev eth1
	ip link set eth1 up
	python3 "$here/agent.py" 8091 &
	exec python3 "$here/snapshot.py" 8090
	;;
esac
