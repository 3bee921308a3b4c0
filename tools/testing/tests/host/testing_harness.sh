#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 2400
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
says host needs FAIL "failed: set-up: no-such-program is not installed: make deps"
says host hang FAIL "no end after 1 s"
says host todo FAIL "failed: unfinished (known: some day)"
says host bail FAIL "bailed out: the rest makes no sense"
says host no_plan FAIL "no plan"
says host two_plans FAIL "2 plans"
says host empty_plan FAIL "planned nothing"
says host same_point FAIL "point 1 came as number 2"
says host no_finish FAIL "bailed out: the script ended before its finish"
says host no_word FAIL "no plan"
says stock good ok "skipped: other: not today"
says debug good ok
says stock wrong_point FAIL "failed: wrong"
says stock wrong_point FAIL "# two and two are five"
says stock wrong_status FAIL "exit status 3"
says stock wrong_plan FAIL "planned 3 points, saw 1"
says stock hang FAIL "no end in its time"
says stock litter FAIL "network namespace litter"
says stock test_module ok
says stock warn FAIL "faulty_set"
says stock die FAIL "the guest died"
says stock zz_after_death ok
says stock lost FAIL "what it said is lost"
says stock end_hangs ok
says stock end_dies ok
says stock end_blind ok
# broken GUEST WORDS TEST: the guest is charged, since its tests had all ended well. `check` has an `output` of its own.
whole=$output
broken() {
	grep -E "^FAIL stock guest-2$1-1.1: the guest $2 after sample/$3, where it looks for leaks" <<<"$whole"
}
check "a guest that hangs where leaks are looked for fails" broken 700M "fell silent" end_hangs
check "one that dies there fails" broken 800M "ended with status 126" end_dies
check "one that cannot look for them fails" broken 900M "ended with status 1" end_blind
says stock held skip "skipped: held: it would fail"
says debug long skip "skipped: long: it takes an hour; \`make test ALL=1\` runs it"
says debug zz_leak FAIL "kmemleak: unreferenced object"
says debug debug_overrun FAIL "slab-out-of-bounds"
says debug debug_sleep FAIL "scheduling while atomic"
says debug debug_lock FAIL "possible circular locking"
says debug debug_lock FAIL "the guest died"
says debug race ok
says debug zz_clean ok
says debug zz_last ok
equal "the last line counts it all" "20 passed, 30 failed, 7 skipped" "$(tail -n1 <<<"$output")"
equal "and what failed is listed before it" 30 "$(sed -n "/^what failed:/,\$p" <<<"$output" | grep -c "^     [a-z]")"
# A test that lacks the bit would be passed over.
unfit=$(mktemp -d)
mkdir -p "$unfit/sample/tests/host" && : >"$unfit/sample/tests/host/unfit.py"
refused=$("$FLT_TOP/tools/testing/run" --tree "$unfit" --results "$unfit/results" 2>&1) && refused="it ran: $refused"
rm -rf "$unfit"
check "a script that may not be run is no test passed over" grep -q "^run: .*/unfit.py is among the tests" <<<"$refused"
check "by name" grep -qx "     host sample/todo: unfinished (known: some day)" <<<"$output"
[ $_failed = 0 ] || printf '%s\n' "$output" | sed 's/^/# /'
# No test is named where this stands, and so nothing above says what it was; last, since the end is what is shown.
awk '/^(ok|FAIL|skip) / { on = /before any test/ } on { print "# " $0 }' <<<"$output"

# A QEMU that is gone twice: once without a word, for which tools/vm/guest starts another, and once with a complaint.
bin=$(mktemp -d)
at_exit rm -rf "$bin"
cat >"$bin/qemu-system-x86_64" <<-'end'
	#!/bin/bash
	echo . >>"${0%/*}/starts"
	case $(wc -l <"${0%/*}/starts") in
	1) exit 0 ;;
	2) exit 1 ;;
	esac
	PATH=${PATH#*:} exec qemu-system-x86_64 "$@"
end
chmod +x "$bin/qemu-system-x86_64"
"$FLT_TOP/tools/vm/guest" -- true # The answer to "does KVM work" is cached.
output=$(PATH=$bin:$PATH "$FLT_TOP/tools/testing/run" --tree "$FLT_TOP/tools/testing/tests/lib/tree" \
	--results "$results-again" --kernel stock --only zz_after_death 2>&1)
equal "a boot that is tried again does not fail the run" 0 $?
equal "but the summary says so" "boots tried again: 2
     stock test-stock: gone before its command began
     stock guest-2-1.1: gone before its first test
1 passed, 0 failed" "$(tail -n4 <<<"$output")"
finish
