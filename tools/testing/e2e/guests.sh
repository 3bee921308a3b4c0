# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# For tests on the host whose claims are held by guests.

# guests SECONDS ROLE=COMMAND...: runs them until all have ended: a claim for each role, and one for how they ended.
# Their logs are in $results.
guests() {
	local limit=$1 role log failures held status made
	shift
	made=$(mktemp -d "$FLT_TOP/build/e2e.XXXXXX")
	at_exit rm -rf "$made"
	results=$made/results
	"$FLT_TOP/tools/vm/cluster" --results "$results" --timeout "$limit" --grace 120 "$@" >"$made/output" 2>&1
	status=$?
	for role in "$@"; do
		role=${role%%=*}
		log=$results/$role.log
		failures=$(grep -c '^not ok' "$log")
		# The plan is the last thing a role says: without it the role did not come to its end.
		held=$(grep -c '^ok' "$log")
		grep -q '^1\.\.' "$log" && [ "$failures" = 0 ]
		claim "$role: $held claims hold" $? "$(cat "$log")"
	done
	equal "every guest ended well" 0 $status
	# shellcheck disable=SC2154 # lib.sh's
	[ "$_failed" = 0 ] || sed 's/^/# /' "$made/output"
}
