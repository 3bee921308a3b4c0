#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# cpus: 2
# cut: yes
# long: both it takes three minutes on the stock kernel, up to sixteen on the debug kernel
# Programs that nobody changed make fewer system calls for readiness with libuselect-preload.so, and give the
# same answers; one that waits by edges is not helped. USELECT_SECONDS (2) of load for each of redis (epoll), nginx
# (epoll, edges), lighttpd (poll) and haproxy (poll), USELECT_CONNECTIONS (50). Server and load have a CPU each:
# one that mostly sleeps makes a call to sleep, with us as without. USELECT_INSTRUCTIONS=1, in a guest whose clock
# counts them: what a request costs the server, in nanoseconds of that clock, and no counting of calls.
. "$FLT_TOP/tools/testing/lib.sh"

need redis-server redis-benchmark redis-cli nginx lighttpd haproxy wrk curl count taskset
load uselect
at_exit "modprobe -r uselect"
SECONDS_EACH=${USELECT_SECONDS:-2}
CONNECTIONS=${USELECT_CONNECTIONS:-50}
PRELOAD=$FLT_TOP/build/lib/libuselect-preload.so
[ -e "$PRELOAD" ] || bail "no $PRELOAD"
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
mkdir "$DIR/www"
for size in 0 1 1000 300000; do
	head -c "$size" /dev/urandom >"$DIR/www/f$size"
done
if [ -e /sys/kernel/btf/vmlinux ] && [ -z "${USELECT_INSTRUCTIONS:-}" ]; then COUNTS=1; else COUNTS=; fi
LAST_CPU=$(($(nproc) - 1))
NO_COUNTS="this kernel describes no types of its own (CONFIG_DEBUG_INFO_BTF), which count needs"

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
	server.max-keep-alive-requests = 65535
	server.errorlog = "$DIR/lighttpd.error"
	index-file.names = ( )
CONF
# A request costs haproxy more than wrk: with nothing to do it would sleep, which is a call with us as without.
costly=
for _ in $(seq 64); do
	costly+="		http-request set-var(txn.digest) path,sha2(512) if { path /own }
"
done
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
$costly		http-request return status 200 content-type text/plain file $DIR/www/f1000 if { path /own }
		server nginx 127.0.0.1:8001
CONF

# start NAME LIBRARY COMMAND...: sets PID
start() {
	local name=$1 library=$2
	shift 2
	LD_PRELOAD=$library taskset -c 0 "$@" >"$DIR/$name.log" 2>&1 &
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
	local command=(taskset -c "$LAST_CPU" wrk -t1 "-c$CONNECTIONS" "-d${SECONDS_EACH}s" --timeout 60s
		"http://127.0.0.1:$1/${LOADED:-f1000}")
	if [ "$COUNTS" ]; then
		count -p "$PID" -j -- "${command[@]}" >"$2" 2>"$2.err"
	else
		"${command[@]}" >"$2" 2>"$2.err"
	fi && ! grep -E 'Socket errors|Non-2xx' "$2" "$2.err"
}

load_redis() {
	local number=$((SECONDS_EACH * 3000))
	local command=(taskset -c "$LAST_CPU" redis-benchmark -p 8000 -c "$CONNECTIONS" -n "$number" -r 1000 -t set -q)
	if [ "$COUNTS" ]; then
		count -p "$PID" -n "$number" -j -- "${command[@]}" >"$2" 2>"$2.err"
	else
		"${command[@]}" >"$2" 2>"$2.err"
	fi
}

same_files() {
	local size
	rm -rf "$DIR/got"
	curl -s --max-time 60 "http://127.0.0.1:$1/f{0,1,1000,300000}" --create-dirs -o "$DIR/got/#1" || return 1
	for size in 0 1 1000 300000; do
		cmp "$DIR/got/$size" "$DIR/www/f$size" || return 1
	done
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

# fewer NAME PORT LOAD COMMAND...: twice again with and without, and the middle one of each counts: one that was
# disturbed by a busy machine decides nothing, in neither direction. Status 4, whatever the library did, when the
# program without it was disturbed so much that its own loads do not agree.
fewer() {
	local name=$1 port=$2 load=$3 way turn
	shift 3
	for turn in 1 2 3; do
		for way in plain preload; do
			if [ $turn != 1 ]; then
				start "$name" "$([ $way = plain ] || echo "$PRELOAD")" "$@"
				up "$port"
				"$load" "$port" "$DIR/$name.$way" || return
				stop "$PID"
			fi
			readiness "$DIR/$name.$way" >>"$DIR/$name.$way.all"
		done
	done
	said=$(paste "$DIR/$name.plain.all" "$DIR/$name.preload.all" | python3 -c '
import statistics, sys
plain, preload = zip(*(map(float, line.split()) for line in sys.stdin))
print("# '"$name"': calls for readiness for a request with", preload, "without", plain)
if max(plain) > 2.5 * min(plain):
    sys.exit(4)
sys.exit(not statistics.median(preload) < 0.95 * statistics.median(plain))')
	set -- $?
	echo "$said"
	return "$1"
}

# ran PID: nanoseconds that it had a CPU
ran() {
	cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

# cost NAME PORT LOAD COMMAND...
cost() {
	local name=$1 port=$2 load=$3 way before requests each plain=
	shift 3
	for way in plain preload; do
		start "$name" "$([ $way = plain ] || echo "$PRELOAD")" "$@"
		up "$port"
		"$load" "$port" "$DIR/$name.$way" || return
		before=$(ran "$PID")
		"$load" "$port" "$DIR/$name.$way" || return
		requests=$(awk '/requests in/ { print $1 }' "$DIR/$name.$way")
		each=$((($(ran "$PID") - before) / ${requests:-$((SECONDS_EACH * 3000))}))
		stop "$PID"
		echo "# $name, $way: $each ns for a request${plain:+, $((each * 1000 / plain - 1000)) of 1000 more}"
		plain=$each
	done
}

# program NAME PORT LOAD SAME COMMAND...
program() {
	local name=$1 port=$2 load=$3 same=$4 way library
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
	[ -z "$EDGES" ] || return
	if [ "${USELECT_INSTRUCTIONS:-}" ]; then
		cost "$name" "$port" "$load" "$@"
		claim "$name costs" $?
		return
	fi
	[ "$COUNTS" ] || { skip "$name makes fewer calls for readiness" "$NO_COUNTS"; return; }
	fewer "$name" "$port" "$load" "$@"
	set -- $?
	# Nothing is claimed of it: 0.037 to 0.057 calls with the library and 0.048 to 0.075 without, run by run.
	[ "$name" != haproxy ] || return
	if [ "$1" = 4 ]; then
		skip "$name makes fewer calls for readiness" "the machine is too busy to tell: ${said#\# }"
	else
		claim "$name makes fewer calls for readiness" "$1"
	fi
}

# It waits for its connections by edges, which are the kernel's alone, and only for its listener by levels.
EDGES=

# A worker of it has the region mapped.
maps() {
	local pid
	for pid in "$1" $(pgrep -P "$1"); do
		grep -q /dev/uselect "/proc/$pid/maps" && return
	done
	return 1
}

turn && program redis 8000 load_redis same_redis redis-server --port 8000 --bind 127.0.0.1 --save "" --dir "$DIR"
turn && EDGES=1 program nginx 8001 load_http same_files nginx -c "$DIR/nginx.conf" -e "$DIR/nginx.error"
turn && program lighttpd 8002 load_http same_files lighttpd -D -f "$DIR/lighttpd.conf"
if turn; then
	nginx -c "$DIR/nginx.conf" -e "$DIR/nginx.error" &
	NGINX=$!
	up 8001
	LOADED=own
	program haproxy 8003 load_http same_files haproxy -db -f "$DIR/haproxy.conf"
	stop "$NGINX"
fi
finish
