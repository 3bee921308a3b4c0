#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# Guests of a cluster reach each other, can wait for each other, and each one's failure counts.
. "$FLT_TOP/tools/testing/lib.sh"

cluster=$FLT_TOP/tools/vm/cluster
work=$(mktemp -d "$FLT_TOP/build/vm_cluster.XXXXXX")
at_exit rm -rf "$work"
# shellcheck disable=SC2016 # the guests' shells expand it
lib='. $FLT_TOP/tools/testing/lib.sh;'

output=$("$cluster" --results "$work/one" \
	server="$lib socat TCP-LISTEN:7000,fork,reuseaddr SYSTEM:'sha256sum' & up() { ss -Hltn sport = :7000 | grep -q .; }; wait_for 60 up; announce ready; await end 300" \
	client="$lib await ready 300 && ping -c1 server && seq 1 100000 | socat -t 20 - TCP:server:7000")
equal "all went well" 0 $?
check "the client names the server and reaches it" grep -q '1 received' <<<"$output"
check "600 KB go over TCP unharmed" grep -q "$(seq 1 100000 | sha256sum | cut -d' ' -f1)" <<<"$output"
[ $_failed = 0 ] || printf '%s\n' "$output" | sed 's/^/# /'

output=$("$cluster" --results "$work/two" bad='exit 3' client="$lib await never 60")
equal "one failing guest fails the cluster" 1 $?
check "and is named" grep -q '^bad: status 3' <<<"$output"
finish
