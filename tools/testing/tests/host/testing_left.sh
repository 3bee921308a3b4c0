#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What a test has left behind is named, and nothing that has gone: guest-batch's left_behind, with modules that only this
# script knows.
. "$FLT_TOP/tools/testing/lib.sh"

at=$(mktemp -d)
at_exit rm -rf "$at"
eval "$(sed -n '/^left_behind() {/,/^}/p' "$FLT_TOP/tools/testing/guest-batch")"

# Its files are the modules that are loaded.
ours_loaded() { find "$at/loaded" -type f -printf '%f\n' | sort | paste -sd' '; }
# One of them is in use for ever, and to take out another is two minutes' work.
rmmod() {
	case $1 in
	slow) SECONDS=$((SECONDS + 120)) && rm "$at/loaded/slow" ;;
	used) return 1 ;;
	*) rm "$at/loaded/$1" ;;
	esac
}
sleep() { SECONDS=$((SECONDS + 1)); }
# Not the machine's own network namespaces.
ip() { :; }

# left MODULE...: what is said of them
left() {
	rm -rf "$at/loaded"
	mkdir "$at/loaded"
	for module; do : >"$at/loaded/$module"; done
	left_behind | grep -v "^network namespace"
}
equal "nothing is said of modules that go" "" "$(left one two)"
equal "nor of one that takes longer than who is in use may" "" "$(left slow)"
equal "one that is in use is named" "in use: used" "$(left used)"
equal "alone, whatever went meanwhile" "in use: used" "$(left one slow used)"
finish
