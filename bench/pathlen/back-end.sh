#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# back-end.sh: the counted guest holds one back-end and nothing else. agent.py starts what is to be behind a front-end by
# `back-end.sh start KIND` and ends it by `back-end.sh stop`; snapshot.py counts. Where nothing is handed off it has none
# of our modules; where the kind is direct it is what clients ask, by TLS.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
vip=10.77.0.200
address=10.77.0.11
state=/run/back-end
mkdir -p $state
# shellcheck source=bench/pathlen/certificate.sh
. "$here/certificate.sh"
# shellcheck source=bench/pathlen/member.sh
. "$here/member.sh"

start() {
	[[ $1 != tls-* ]] || secured
	backend be1 $address eth1
	case $1 in
	handoff | early)
		modprobe handoff
		node be1 $address ""
		;;
	tls-handoff | tls-handoff-none)
		modprobe handoff
		ip netns attach back-end $$
		python3 "$here/link.py" back-end >$state/link.log 2>&1 &
		echo $! >$state/link
		node be1 $address "auth x509"
		;;
	esac
}

stop() {
	local pid module
	# Of what began in part, too.
	if [ -s $state/be1.pid ]; then
		pid=$(cat $state/be1.pid)
		kill "$pid" || true
		while [ -d "/proc/$pid" ]; do sleep 0.1; done
		rm -f $state/be1.pid
	fi
	[ ! -s $state/link ] || kill "$(cat $state/link)" || true
	rm -f $state/link
	ip netns del back-end 2>/dev/null || true
	ip addr del $vip/32 dev lo 2>/dev/null || true
	if [ -d /sys/module/flotilla ]; then
		flotilla node del fe || true
	fi
	for module in handoff flotilla; do
		[ ! -d /sys/module/$module ] || rmmod $module
	done
}

case ${1:-serve} in
start) start "$2" ;;
stop) stop ;;
ready) ;;
serve)
	files
	ip addr add $address/24 dev eth1
	ip link set eth1 up
	python3 "$here/agent.py" 8091 &
	exec python3 "$here/snapshot.py" 8090
	;;
esac
