#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# cpus: 2
# flash with `events uselect`: all that holds of its HTTP holds, with hardly a system call for readiness.
. "$FLT_TOP/tools/testing/lib.sh"

need flash wrk python3
load uselect
at_exit "modprobe -r uselect"
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
mkdir "$DIR/www"
head -c 1000 /dev/zero | tr '\0' x >"$DIR/www/f"

listening_here() { ss -Hltn "sport = :$1" | grep -q .; }

check "what holds of flash's HTTP holds" env FLASH_ARGS='--events uselect' \
	"$FLT_TOP/tools/flash/tests/host/flash_http.py"

flash --root "$DIR/www" --listen 8080 --workers 0 --user root --events uselect 2>"$DIR/errors" &
pid=$!
at_exit "kill $pid; wait $pid"
wait_for 60 listening_here 8080 || bail "flash does not listen: $(cat "$DIR/errors")"
# It listens before it registers.
check "the process is registered" wait_for 60 grep -q /dev/uselect "/proc/$pid/maps"
equal "it says nothing" "" "$(cat "$DIR/errors")"
if [ -e /sys/kernel/btf/vmlinux ]; then
	check "under load" sh -c "count -p $pid -j -- wrk -t1 -c32 -d3s http://127.0.0.1:8080/f >$DIR/counts"
	echo "# $(cat "$DIR/counts")"
	calls=$(python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))["calls"]
print(sum(c.get(k, 0) for k in ("epoll_wait", "epoll_pwait", "epoll_ctl")))' "$DIR/counts")
	claim "$calls system calls for readiness for a request, at most 0.2" \
		"$(python3 -c "import sys; sys.exit(not $calls <= 0.2)"; echo $?)"
else
	skip "hardly a system call for readiness" "this kernel has no BTF, which count needs"
fi
finish
