#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# kernel: stock
# long: stock it takes a minute
# What bench/pathlen compares afpa with: the kernel answers each request of its load, Varnish finds each, and logs none.
. "$FLT_TOP/tools/testing/lib.sh"

need nginx curl flotilla varnishd varnishstat
ip link set lo up

listens() { ss -Hltn "sport = :$1" | grep -q .; }

# start SERVER, which ends with the other side of its port 8090
start() {
	"$FLT_TOP/bench/pathlen/guest.sh" "$1" >/run/guest.log 2>&1 &
	server=$!
	wait_for 120 listens 8090 || bail "$1 did not start: $(cat /run/guest.log)"
}
stop() {
	python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8090)).sendall(b"quit\n")'
	wait $server
}
ask() { "$FLT_TOP/build/bench/load" -n 200 -c 4 "$@" 2>&1; }
hits() { flotilla -t stats show name AfpaHits | cut -f3; }
found() { varnishstat -n /run/varnish -1 -f MAIN.cache_hit | awk '{ print $2 }'; }

start afpa
for path in f64 f65536; do
	equal "kept connections: $path" 200 "$(ask -k 127.0.0.1 8080 /$path)"
	equal "new ones: $path" 200 "$(ask 127.0.0.1 8080 /$path)"
done
equal "all by the kernel" 800 "$(hits)"
said=$(ask -k 127.0.0.1 8080 /f65)
[[ $said == *"not an answer to use: HTTP/1.1 404"* ]]
claim "what the kernel does not have ends the load" $? "$said"
length() { curl -sD - -o /dev/null "http://127.0.0.1:$1/f64" | wc -c; }
kernel=$(length 8080)
stop
kill "$(cat /run/nginx.pid)"
rmmod afpa
wait_for 30 eval '! listens 8080' || bail "nginx stays"

start varnish
wait_for 60 listens 8080 || bail "Varnish did not start: $(cat /run/guest.log)"
peer=$(length 8081)
# A Date of theirs has the same length; Connection is told of on 1.1 by nginx alone.
claim "the head is no shorter than nginx's by more than Connection: $kernel of $peer" "$((kernel + 25 < peer))"
equal "Varnish has 8 KB" 200 "$(ask -k 127.0.0.1 8080 /f8192)"
equal "and on new connections" 200 "$(ask 127.0.0.1 8080 /f8192)"
[ "$(found)" -ge 396 ]
claim "from its memory: $(found) of 400" $?
equal "and wrote nothing down" "" "$(varnishlog -n /run/varnish -d 2>&1 | head -3)"
stop
finish
