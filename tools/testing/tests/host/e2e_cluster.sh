#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 800
# Four kernels: client, front-end, a back-end with nginx and one with flash, on one Ethernet segment.
. "$FLT_TOP/tools/testing/lib.sh"
need nginx curl

here=$FLT_TOP/tools/testing/e2e
made=$(mktemp -d "$FLT_TOP/build/e2e.XXXXXX")
at_exit rm -rf "$made"
results=$made/results

"$FLT_TOP/tools/vm/cluster" --results "$results" --timeout 600 --grace 120 \
	be1="bash $here/backend.sh nginx" be2="bash $here/backend.sh flash" \
	fe="bash $here/frontend.sh" client="bash $here/client.sh" >"$made/output" 2>&1
status=$?
for role in be1 be2 fe client; do
	log=$results/$role.log
	failures=$(grep -c '^not ok' "$log")
	# The plan is the last thing a role says: without it the role did not come to its end.
	held=$(grep -c '^ok' "$log")
	grep -q '^1\.\.' "$log" && [ "$failures" = 0 ]
	claim "$role: $held claims hold" $? "$(cat "$log")"
done
equal "every guest ended well" 0 $status
[ $_failed = 0 ] || sed 's/^/# /' "$made/output"
finish
