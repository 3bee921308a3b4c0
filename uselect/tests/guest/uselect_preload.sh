#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# cpus: 2
# held: both not yet seen to pass
# Programs that nobody changed gain by libuselect-preload.so: the same answers, fewer system calls for
# readiness. USELECT_SECONDS (3) of load for each of redis (epoll), nginx (epoll, edges), lighttpd (poll)
# and haproxy (poll), USELECT_CONNECTIONS (50).
. "$FLT_TOP/tools/testing/lib.sh"

need redis-server redis-benchmark redis-cli nginx lighttpd haproxy wrk curl count
load uselect
at_exit "modprobe -r uselect"
SECONDS_EACH=${USELECT_SECONDS:-3}
CONNECTIONS=${USELECT_CONNECTIONS:-50}
PRELOAD=$FLT_TOP/build/lib/libuselect-preload.so
[ -e "$PRELOAD" ] || bail "no $PRELOAD"
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
mkdir "$DIR/www"
for size in 0 1 1000 300000; do
	head -c "$size" /dev/urandom >"$DIR/www/f$size"
done
if [ -e /sys/kernel/btf/vmlinux ]; then COUNTS=1; else COUNTS=; fi

cat >"$DIR/nginx.conf" <<-CONF
	daemon off; worker_processes 1; user root; pid $DIR/nginx.pid; error_log $DIR/nginx.error;
	events { }
	http {
		access_log off; keepalive_requests 1000000; keepalive_timeout 60;
		server { listen 127.0.0.1:8001; root $DIR/www; }
	}
CONF
cat >"$DIR/lighttpd.conf" <<-CONF
	server.document-root = "$DIR/www"
	server.bind = "127.0.0.1"
	server.port = 8002
	server.event-handler = "poll"
	server.max-keep-alive-requests = 1000000
	server.errorlog = "$DIR/lighttpd.error"
	index-file.names = ( )
CONF
cat >"$DIR/haproxy.conf" <<-CONF
	global
		noepoll
		nbthread 1
	defaults
		mode http
		timeout connect 60s
		timeout client 60s
		timeout server 60s
	listen web
		bind 127.0.0.1:8003
		server nginx 127.0.0.1:8001
CONF

# start NAME LIBRARY COMMAND...: sets PID
start() {
	local name=$1 library=$2
	shift 2
	LD_PRELOAD=$library "$@" >"$DIR/$name.log" 2>&1 &
	PID=$!
}

stop() {
	kill "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

up() {
	wait_for 60 sh -c "ss -Hltn 'sport = :$1' | grep -q ." || bail "no server on $1: $(tail -n3 "$DIR"/*.log)"
}

# readiness FILE: system calls for readiness for a request, as `count` wrote them
readiness() {
	python3 - "$1" <<-'PYTHON'
		import json
		import sys
		calls = json.load(open(sys.argv[1]))["calls"]
		names = ("epoll_wait", "epoll_pwait", "epoll_ctl", "poll", "ppoll", "select", "pselect6")
		print(round(sum(calls.get(name, 0) for name in names), 4))
	PYTHON
}

# load_http PORT FILE
load_http() {
	local command=(wrk -t1 "-c$CONNECTIONS" "-d${SECONDS_EACH}s" "http://127.0.0.1:$1/f1000")
	if [ "$COUNTS" ]; then
		count -p "$PID" -j -- "${command[@]}" >"$2" 2>"$2.err"
	else
		"${command[@]}" >"$2" 2>"$2.err"
	fi && ! grep -E 'Socket errors|Non-2xx' "$2" "$2.err"
}

load_redis() {
	local number=$((SECONDS_EACH * 3000))
	local command=(redis-benchmark -p 8000 -c "$CONNECTIONS" -n "$number" -r 1000 -t set -q)
	if [ "$COUNTS" ]; then
		count -p "$PID" -n "$number" -j -- "${command[@]}" >"$2" 2>"$2.err"
	else
		"${command[@]}" >"$2" 2>"$2.err"
	fi
}

same_files() {
	local size
	for _ in 1 2 3; do
		for size in 0 1 1000 300000; do
			curl -s --max-time 60 "http://127.0.0.1:$1/f$size" | cmp - "$DIR/www/f$size" || return 1
		done
	done
	# several on one connection, and half a request that waits for the rest
	curl -s --max-time 60 "http://127.0.0.1:$1/f[0-1]" "http://127.0.0.1:$1/f1000" -o "$DIR/got#1" || return 1
	cmp "$DIR/got0" "$DIR/www/f0" && cmp "$DIR/got1" "$DIR/www/f1"
}

same_redis() {
	redis-cli -p 8000 set key value | grep -q OK || return 1
	[ "$(redis-cli -p 8000 get key)" = value ] || return 1
	# a blocked client is woken by another
	redis-cli -p 8000 blpop list 60 >"$DIR/popped" &
	local popper=$!
	wait_for 60 sh -c "redis-cli -p 8000 info clients | grep -q blocked_clients:1" || return 1
	redis-cli -p 8000 rpush list item >/dev/null
	wait "$popper" && grep -q item "$DIR/popped"
}

# program NAME PORT LOAD SAME COMMAND...
program() {
	local name=$1 port=$2 load=$3 same=$4 way library before after
	shift 4
	for way in plain preload; do
		library=
		[ $way = plain ] || library=$PRELOAD
		start "$name" "$library" "$@"
		up "$port"
		check "$name, $way: answers are right" "$same" "$port"
		check "$name, $way: under load" "$load" "$port" "$DIR/$name.$way"
		check "$name, $way: still right" "$same" "$port"
		if [ $way = preload ]; then
			claim "$name registers" "$(maps "$PID"; echo $?)"
		fi
		stop "$PID"
	done
	[ "$COUNTS" ] || return
	before=$(readiness "$DIR/$name.plain")
	after=$(readiness "$DIR/$name.preload")
	claim "$name: $after calls for readiness for a request, $before before" \
		"$(python3 -c "import sys; sys.exit(not $after < 0.9 * $before)"; echo $?)" \
		"$(cat "$DIR/$name.plain" "$DIR/$name.preload")"
}

# A worker of it has the region mapped.
maps() {
	local pid
	for pid in "$1" $(pgrep -P "$1"); do
		grep -q /dev/uselect "/proc/$pid/maps" && return
	done
	return 1
}

program redis 8000 load_redis same_redis redis-server --port 8000 --bind 127.0.0.1 --save "" --dir "$DIR"
program nginx 8001 load_http same_files nginx -c "$DIR/nginx.conf" -e "$DIR/nginx.error"
program lighttpd 8002 load_http same_files lighttpd -D -f "$DIR/lighttpd.conf"
nginx -c "$DIR/nginx.conf" -e "$DIR/nginx.error" &
NGINX=$!
up 8001
program haproxy 8003 load_http same_files haproxy -db -f "$DIR/haproxy.conf"
stop "$NGINX"
finish
