#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# The demo ends well, and its report says what Flotilla is for.
. "$FLT_TOP/tools/testing/lib.sh"
need nginx wrk curl mke2fs

free_port() {
	python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

output=$(DEMO_EXIT=1 DEMO_SECONDS=5 DEMO_PORT=$(free_port) "$FLT_TOP/tools/demo/run" 2>&1)
claim "the demo ends well: no error, every body right" $? "$output"

# cell HEADING POLICY NUMBER: of the first table row under a heading that begins with POLICY.
cell() {
	awk -v heading="$1" -v policy="$2" -v number="$3" '
		index($0, heading) { inside = 1 }
		inside && $1 == policy { print $number; exit }' <<<"$output"
}

wrr=$(cell 'two policies' wrr 13)
lardr=$(cell 'two policies' lard/r 13)
[ "${lardr:-0}" -gt "${wrr:-100}" ]
claim "lard/r finds more in memory than wrr" $? "wrr ${wrr:-?} %, lard/r ${lardr:-?} %"
for column in 2 3 4; do
	[ "$(cell 'Who answered' lard/r $column)" -gt 0 ]
	claim "back-end $((column - 1)) answered" $?
done
# A handoff that fails in its time is no failure: the client is served by proxy, and must not see a difference.
for policy in wrr lard/r; do
	equal "wrk saw no error under $policy" 0 "$(cell 'two policies' $policy 8)"
	requests=$(cell 'two policies' $policy 2)
	done=$(sed -n "s|^ *$policy: \([0-9]*\) done, .*|\1|p" <<<"$output")
	[ $((${done:-0} * 100)) -ge $((${requests:-1} * 90)) ]
	claim "of $requests requests under $policy $done were handed off, at least 90 %" $?
	[ $((${requests:-0})) -gt 0 ]
	claim "wrk was answered under $policy" $?
done
grep -q ' 20 of 20 documents arrived with the bytes' <<<"$output"
claim "each body that was looked at has the bytes it has on disk" $?
refuse "nobody unknown answered" grep -q 'by nobody known' <<<"$output"
around=$(grep -o '= [0-9]* % never touched' <<<"$output" | grep -o '[0-9]*' | sort -n | head -1)
[ "${around:-0}" -ge 80 ]
claim "at least 80 % of what clients got went around the front-end" $? "$around %"
[ $_failed = 0 ] || printf '%s\n' "$output" | sed 's/^/# /'
finish
