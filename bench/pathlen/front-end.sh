#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# front-end.sh: the counted guest holds the front-end and nothing else. agent.py starts one at a time by
# `front-end.sh start KIND` and ends it by `front-end.sh stop`; `front-end.sh ready KIND` waits until it has its nodes;
# `front-end.sh moved COUNTER` is how many connections went that way. snapshot.py counts. Where a back-end is counted,
# outside.sh has it in a namespace, and $BACKENDS says who is behind it.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
top=$(readlink -f "$here/../..")
vip=10.77.0.200
backends=${BACKENDS:-be1:10.77.0.11 be2:10.77.0.12}
state=/run/front-end
mkdir -p $state
# shellcheck source=bench/pathlen/certificate.sh
. "$here/certificate.sh"

# What is behind `bind`.
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
		bind $*
	END
	for backend in $backends; do
		echo "	server ${backend%%:*} ${backend#*:}:80"
	done
}

# What is to be said of TLS; nginx is told only of TLS.
nginx_conf() {
	cat <<-END
	worker_processes 1; user root; pid $state/pid; error_log $state/nginx.error;
	events { worker_connections 4096; }
	http {
		access_log off; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600s;
		upstream backends {
	END
	for backend in $backends; do
		echo "server ${backend#*:}:80;"
	done
	cat <<-END
			keepalive 64; keepalive_requests 100000000; keepalive_timeout 600s;
		}
		server {
			listen $vip:443 ssl backlog=4096;
			ssl_certificate $state/chain; ssl_certificate_key $state/key; ssl_protocols TLSv1.3;
			$*
			location / {
				proxy_pass http://backends; proxy_http_version 1.1; proxy_set_header Connection "";
				proxy_buffers 16 16k; proxy_max_temp_file_size 0;
			}
		}
	}
	END
}

# Sessions of TLS: "" in tickets; -cache: in its memory; -documented: none, as its documentation says, which with TLS 1.3
# leaves two tickets a handshake that nobody can resume by; -none: without these, which OpenSSL itself must be told.
haproxy_tls() {
	haproxy_conf "$vip:443 ssl crt $state/both${1:+ no-tls-tickets}" >$state/haproxy.cfg
	case $1 in
	-none | -documented) sed -i 's/^\tnbthread.*/&\n\ttune.ssl.cachesize 0/' $state/haproxy.cfg ;;
	esac
	printf '%s\n' "openssl_conf = a" "[a]" "ssl_conf = b" "[b]" "system_default = c" "[c]" "NumTickets = 0" \
		>$state/openssl.cnf
	[ "$1" != -none ] || local -x OPENSSL_CONF=$state/openssl.cnf
	haproxy -D -p $state/pid -f $state/haproxy.cfg
}

# And -ktls, before these: the kernel makes the records.
nginx_tls() {
	local words=
	[[ $1 != -ktls* ]] || words="ssl_conf_command Options KTLS;"
	case ${1#-ktls} in
	-cache) words+=" ssl_session_tickets off; ssl_session_cache shared:sessions:10m;" ;;
	-none | -documented) words+=" ssl_session_tickets off; ssl_session_cache off;" ;;
	esac
	[[ $1 != *-none ]] || words+=" ssl_conf_command NumTickets 0;"
	nginx_conf "$words" >$state/nginx.conf
	nginx -c $state/nginx.conf -e $state/nginx.error
}

# Of lardd, by the kind.
tickets() {
	[[ $1 = *-none ]] && echo "tls-tickets off" || echo "tls-tickets on"
}

# lardd with TLS, and what more is to be said.
lardd_conf() {
	printf '%s\n' "listen $vip:443 tls" "certificate $state/chain $state/key" "control $state/lardd.sock" \
		"user root" "workers 1" "policy wrr" "$@"
}

lardd_start() {
	lardd -c $state/lardd.conf --foreground >$state/lardd.log 2>&1 &
	echo $! >$state/pid
	lardd_ready
}

# However slow the machine, as long as lardd lives.
lardd_ready() {
	until flotilla explain http://$vip/ socket $state/lardd.sock 2>/dev/null | grep -q '^node: '; do
		alive pid || { cat $state/lardd.log >&2; return 1; }
		sleep 0.2
	done
}

alive() {
	kill -0 "$(cat "$state/$1")" 2>/dev/null
}

# As a dispatcher would ask for it: the kernel opens the connections in its place.
early_start() {
	local backend ids=
	for backend in $backends; do
		ids+=" $(flotilla -j node show "${backend%%:*}" | grep -o '"id": *[0-9]*' | grep -o '[0-9]*$')"
	done
	# shellcheck disable=SC2086
	python3 "$here/early.py" $vip 80 $ids >$state/early.log 2>&1 &
	echo $! >$state/early
	until grep -q begun $state/early.log; do
		alive early || { cat $state/early.log >&2; return 1; }
		sleep 0.2
	done
}

# How nodes are to be known.
nodes_up() {
	local backend
	modprobe handoff
	flotilla local set name fe address 10.77.0.1
	"$here/patient.sh"
	# Else nothing is given by links that nobody has authenticated, and lardd proxies.
	[ $# -gt 0 ] || flotilla local set insecure on
	for backend in $backends; do
		flotilla node add "${backend%%:*}" address "${backend#*:}" "$@"
	done
	links_up
}

# Whoever asks has a time for it.
links_up() {
	local backend
	for backend in $backends; do
		until flotilla -j node show "${backend%%:*}" | grep -q '"state": *"up"'; do
			sleep 0.2
		done
	done
}

ready() {
	case $1 in
	handoff | early | tls-handoff*) links_up; lardd_ready ;;
	lardd-early) links_up; lardd_ready; until grep -q 'early.*state=on' $state/lardd.log; do sleep 0.2; done ;;
	tls-proxy*) lardd_ready ;;
	esac
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
	local backend nodes=()
	[[ $1 != tls-* ]] || secured
	case $1 in
	haproxy)
		haproxy_conf $vip:80 >$state/haproxy.cfg
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
	lardd-early)
		nodes_up
		echo lard >/sys/class/flotilla/dispatch/policy
		printf 'listen %s:80\ncontrol %s\nearly on\n' $vip $state/lardd.sock >$state/lardd.conf
		lardd_start
		;;
	handoff | early)
		nodes_up
		echo wrr >/sys/class/flotilla/dispatch/policy
		printf 'listen %s:80\ncontrol %s\n' $vip $state/lardd.sock >$state/lardd.conf
		lardd_start
		[ "$1" = handoff ] || early_start
		;;
	tls-haproxy | tls-haproxy-*) haproxy_tls "${1#tls-haproxy}" ;;
	tls-nginx | tls-nginx-*) nginx_tls "${1#tls-nginx}" ;;
	tls-proxy | tls-proxy-none)
		for backend in $backends; do
			nodes+=("node ${backend%%:*} ${backend#*:}:80")
		done
		lardd_conf "$(tickets "$1")" "mode proxy" "health-check none" "${nodes[@]}" >$state/lardd.conf
		lardd_start
		;;
	tls-handoff | tls-handoff-none)
		ip netns del front-end 2>/dev/null || true
		ip netns attach front-end $$
		python3 "$here/link.py" front-end >$state/link.log 2>&1 &
		echo $! >$state/link
		nodes_up auth x509
		echo wrr >/sys/class/flotilla/dispatch/policy
		lardd_conf "$(tickets "$1")" "proxy-port 80" "tls-port 8443" >$state/lardd.conf
		lardd_start
		;;
	*) echo "front-end.sh: no front-end called '$1'" >&2; exit 2 ;;
	esac
}

stop() {
	local backend module

	[ ! -s $state/pid ] || kill "$(cat $state/pid)" || true
	[ ! -s $state/link ] || kill "$(cat $state/link)" || true
	[ ! -s $state/early ] || kill "$(cat $state/early)" || true
	rm -f $state/pid $state/link $state/early
	ip netns del front-end 2>/dev/null || true
	! command -v ipvsadm >/dev/null || ! grep -q '^ip_vs ' /proc/modules || ipvsadm -C
	if [ -d /sys/class/net/eth1 ]; then
		ip link set eth1 xdpdrv off
		tc qdisc del dev eth1 clsact 2>/dev/null || true
	fi
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
ready) ready "$2" ;;
moved) { flotilla stats name "$2" 2>/dev/null || true; } | awk '{ n += $NF } END { print n + 0 }' ;;
stop) stop ;;
serve)
	ip addr add 10.77.0.1/24 dev eth1
	ip addr add $vip/24 dev eth1
	ip link set eth1 up
	python3 "$here/agent.py" 8091 &
	exec python3 "$here/snapshot.py" 8090
	;;
esac
