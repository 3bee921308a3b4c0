#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: stock a minute and a half
# kernel: stock
# bench/mix: whatever the proxy waits and relays by, robots get each byte of each answer, and so does its cache.
. "$FLT_TOP/tools/testing/lib.sh"

need ip tc ss
at_exit "ip netns del cli; ip netns del prx; ip netns del srv"
rows=/run/mix-rows
configs=(direct epoll-paper+check select+check+4k uselect-list+check+late)
for layer in select epoll uselect uselect-list; do
	configs+=("$layer+check" "$layer+check+splice")
done
"$FLT_TOP/bench/mix/guest.py" --quick --each 20 --rates 400 --warm 0.5 --seconds 1.5 --delay 2 "${configs[@]}" >$rows
claim "all bytes are right, and nothing is missing" $? "$(cat $rows)"

# FIELD CONFIG...: the least of what these, or all, say
least() {
	python3 -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1]) if line[0] == "{"]
print(min(row[sys.argv[2]] for row in rows if not sys.argv[3:] or row["name"] in sys.argv[3:]))' $rows "$@"
}
above() { python3 -c 'import sys; sys.exit(float(sys.argv[1]) <= float(sys.argv[2]))' "$@"; }

equal "each configuration has answered" ${#configs[@]} "$(grep -c '^{' $rows)"
got=$(least requests)
claim "many answers: $got" "$(above "$got" 50; echo $?)"
got=$(least spliced select+check+splice uselect-list+check+splice)
claim "the kernel passed some on: $got of an answer" "$(above "$got" 0.1; echo $?)"
got=$(least blocked select+check epoll+check uselect+check uselect-list+check)
claim "the proxy had to wait for room: $got times for an answer" "$(above "$got" 0; echo $?)"
finish
