#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# kernel: stock
# `count` sees what is known of nginx beforehand: its calls, copies and packets for one request.
. "$FLT_TOP/tools/testing/lib.sh"

need nginx wrk curl count
[ -e /sys/kernel/btf/vmlinux ] || skip_all "this kernel describes no types of its own (CONFIG_DEBUG_INFO_BTF)"
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
mkdir "$DIR/www"
head -c 20000 /dev/zero | tr '\0' x >"$DIR/www/f"
cat >"$DIR/conf" <<-CONF
	worker_processes 1; user root; pid $DIR/pid; error_log $DIR/error;
	events { }
	http {
		access_log off; sendfile off; output_buffers 1 64k; keepalive_requests 1000000; keepalive_timeout 60;
		open_file_cache max=10;
		server { listen 127.0.0.1:8080; root $DIR/www; }
	}
CONF
nginx -c "$DIR/conf" -e "$DIR/error"
at_exit "kill \$(cat $DIR/pid)"
pid=$(cat "$DIR/pid")

value() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1]))
for k in sys.argv[2:]: d = d.get(k, 0)
print(d)' "$@"; }
between() { python3 -c 'import sys; v, low, high = map(float, sys.argv[1:]); sys.exit(not low <= v <= high)' "$@"; }

# A fixed number, so that what is under way at the end of a load does not count.
load="curl -s -o /dev/null http://127.0.0.1:8080/f?[1-200]"
check "count runs" sh -c "count -p $pid -n 200 -j -- $load >$DIR/kept"
echo "# kept: $(cat "$DIR/kept")"
for claim in "recvfrom:1:2.1" "writev:1:1.2" "pread64:0.9:1.1"; do
	IFS=: read -r call low high <<<"$claim"
	got=$(value "$DIR/kept" calls "$call")
	claim "$call for each request is $low to $high: $got" "$(between "$got" "$low" "$high"; echo $?)"
done
# read from the file, written to the socket: the body is copied both ways
got=$(value "$DIR/kept" "bytes copied to program")
claim "the body and the request are copied to the program: $got" "$(between "$got" 20000 20600; echo $?)"
got=$(value "$DIR/kept" "bytes copied from program")
claim "the body and the head are copied from it: $got" "$(between "$got" 20100 20800; echo $?)"
got=$(value "$DIR/kept" "packets in")
claim "packets in: $got" "$(between "$got" 1 3; echo $?)"

check "count runs, a connection for each request" sh -c \
	"count -p $pid -n 200 -j -- $load -H 'Connection: close' >$DIR/new"
echo "# new: $(cat "$DIR/new")"
got=$(value "$DIR/new" calls accept4)
claim "accept4 for each request: $got" "$(between "$got" 0.9 2.1; echo $?)"
got=$(value "$DIR/new" calls close)
claim "close for each request: $got" "$(between "$got" 0.9 1.1; echo $?)"

check "count learns the number of requests from wrk" sh -c \
	"count -p $pid -j -- wrk -t1 -c2 -d3s http://127.0.0.1:8080/f >$DIR/wrk"
got=$(value "$DIR/wrk" requests)
claim "wrk made requests: $got" "$(between "$got" 1 1000000; echo $?)"
got=$(value "$DIR/wrk" calls recvfrom)
claim "and recvfrom for each of them is as many: $got" "$(between "$got" 1 2.1; echo $?)"

refuse "a process that is not there" count -p 99999999 -- true
refuse "no number of requests" count -p "$pid" -- true
refuse "a load that fails" count -p "$pid" -n 1 -- false
finish
