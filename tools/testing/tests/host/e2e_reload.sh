#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 800
# A front-end's lardd ends, its handoff.ko is unloaded and loaded anew, while a standby has its address: two kernels.
. "$FLT_TOP/tools/testing/lib.sh"
need keepalived

here=$FLT_TOP/tools/testing/e2e
made=$(mktemp -d "$FLT_TOP/build/e2e.XXXXXX")
at_exit rm -rf "$made"
results=$made/results

"$FLT_TOP/tools/vm/cluster" --results "$results" --timeout 700 --grace 120 \
	fe="bash $here/reload_front.sh" rest="bash $here/reload_rest.sh" >"$made/output" 2>&1
status=$?
for role in fe rest; do
	log=$results/$role.log
	failures=$(grep -c '^not ok' "$log")
	# The plan is the last thing a role says: without it the role did not come to its end.
	held=$(grep -c '^ok' "$log")
	grep -q '^1\.\.' "$log" && [ "$failures" = 0 ]
	claim "$role: $held claims hold" $? "$(cat "$log")"
done
equal "every guest ended well" 0 $status
grep -h '^# [0-9]* answers' "$results/rest.log"
[ $_failed = 0 ] || sed 's/^/# /' "$made/output"
finish
