#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# The harness must notice what goes wrong: it runs the tests of lib/tree, each of which does one thing wrong.
. "$FLT_TOP/tools/testing/lib.sh"

results=$FLT_TOP/build/harness
output=$("$FLT_TOP/tools/testing/run" --tree "$FLT_TOP/tools/testing/tests/lib/tree" --results "$results" 2>&1)
status=$?

# says WHERE TEST WORD [LINE]: the test's entry begins with WORD and has a line that contains LINE.
says() {
	local entry
	entry=$(awk -v head="$3 *$1 *sample/$2:" '$0 ~ "^(ok|FAIL|skip) " { on = $0 ~ "^" head } on' <<<"$output")
	[ -n "$entry" ] && grep -qF -- "${4:-}" <<<"$entry"
	claim "$1 $2: $3${4:+, $4}" $? "$entry"
}

equal "a run with failures exits 1" 1 $status
says host good ok
says host wrong_status FAIL "exit status 1"
says host skipped skip "skipped: no such thing here"
says host hang FAIL "no end after 1 s"
says stock good ok "skipped: other: not today"
says debug good ok
says stock wrong_point FAIL "failed: wrong"
says stock wrong_point FAIL "# two and two are five"
says stock wrong_status FAIL "exit status 3"
says stock wrong_plan FAIL "planned 3 points, saw 1"
says stock hang FAIL "no end in its time"
says stock litter FAIL "network namespace litter"
says stock warn FAIL "faulty_set"
says stock die FAIL "the guest died"
says stock zz_after_death ok
says stock held skip "skipped: held: it would fail"
says debug long skip "skipped: long: it takes an hour; \`make test ALL=1\` runs it"
says debug zz_leak FAIL "kmemleak: unreferenced object"
says debug debug_overrun FAIL "slab-out-of-bounds"
says debug debug_sleep FAIL "scheduling while atomic"
says debug debug_lock FAIL "possible circular locking"
says debug debug_lock FAIL "the guest died"
says debug zz_clean ok
says debug zz_last ok
equal "the last line counts it all" "9 passed, 17 failed, 7 skipped" "$(tail -n1 <<<"$output")"
[ $_failed = 0 ] || printf '%s\n' "$output" | sed 's/^/# /'
finish
