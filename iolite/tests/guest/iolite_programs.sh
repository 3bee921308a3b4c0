#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 90
# long: debug it takes three minutes there
# The converted programs print what the ordinary ones print, and copy nothing on the way; and ordinary programs
# of stdio, with libiolstdio, copy nothing between each other.
. "$FLT_TOP/tools/testing/lib.sh"

counter() {
	awk -v name="$1" '$1 == name { print $2 }' /sys/kernel/debug/iolite/counters
}
copied() {
	local sum=0 name
	for name in BytesCopiedInline BytesCopiedReceive BytesCopiedSend BytesCopiedFile; do
		sum=$((sum + $(counter "$name")))
	done
	echo "$sum"
}
same_wc() {
	[ "$(iol-wc <"$1")" = "$(wc <"$1" | awk '{ print $1, $2, $3 }')" ]
}
same_cat() {
	iol-cat "$1" "$1" | cmp - <(cat "$1" "$1")
}
same_grep() {
	iol-cat "$1" | iol-grep needle | cmp - <(grep -F needle "$1")
}
# 7! orders of 28 bytes; the words are told by wc, which must not see a torn one.
same_permute() {
	[ "$(iol-permute 7 | wc | awk '{ print $2, $3 }')" = "35280 141120" ] &&
		[ "$(iol-permute 7 | fold -w 28 | sort -u | wc -l)" = 5040 ]
}
no_copies() {
	local before

	before=$(copied)
	[ "$(iol-permute 8 | iol-wc)" = "0 322560 1290240" ] || return 1
	iol-cat "$1" | iol-wc >/dev/null || return 1
	[ "$before" = "$(copied)" ]
}

stdio() {
	LD_PRELOAD="$FLT_TOP/build/lib/libiolstdio.so" "$@"
}
# Each by a program with streams at both ends: lines, words, single characters, blocks, and a seek.
same_stdio() {
	local want got

	want=$(sed 's/hay/straw/' <"$1" | cut -d' ' -f1,3 | uniq -c | paste - - | od -c | md5sum)
	got=$(stdio sed 's/hay/straw/' <"$1" | stdio cut -d' ' -f1,3 | stdio uniq -c | stdio paste - - |
		stdio od -c | md5sum)
	[ "$want" = "$got" ] || return 1
	[ "$(stdio tail -n 3 "$1" | stdio sort)" = "$(tail -n 3 "$1" | sort)" ] || return 1
	[ "$(stdio od -j 100000 -N 60 "$1")" = "$(od -j 100000 -N 60 "$1")" ]
}
# A child after fork has the parent's streams, and not its window.
same_fork() {
	local script='print "parent\n"; if (fork() == 0) { print scalar(<STDIN>); exit } wait; print scalar(<STDIN>)'

	[ "$(stdio sed p <"$1" | stdio awk 'NR == 2 { print; system("echo child"); fflush() } NR == 3' | cat)" = \
		"$(sed p <"$1" | awk 'NR == 2 { print; system("echo child"); fflush() } NR == 3')" ] || return 1
	[ "$(stdio perl -e "$script" <"$1" | sort)" = "$(perl -e "$script" <"$1" | sort)" ]
}
same_proc() {
	[ "$(stdio sed -n 1p /proc/self/status)" = "$(sed -n 1p /proc/self/status)" ] &&
		[ "$(stdio sort /proc/filesystems)" = "$(sort /proc/filesystems)" ]
}
# What is copied is what goes by value: the last, short buffer of each stream, when it is written and read.
no_stdio_copies() {
	local before after

	before=$(copied)
	stdio sed 's/a/b/' <"$1" | stdio cut -c1-30 | stdio uniq >/dev/null
	after=$(copied)
	echo "# $(stat -c %s "$1") bytes through two pipes, $((after - before)) of them copied"
	[ $(((after - before) * 200)) -le "$(stat -c %s "$1")" ]
}

mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
load iolite
text=/tmp/iolite.text
awk 'BEGIN { for (i = 0; i < 40000; i++) print i, "hay", i % 97 ? "hay" : "needle", "hay hay hay" }' >$text
check "wc counts as wc" same_wc $text
check "cat writes as cat" same_cat $text
check "grep finds as grep, in lines that are split over buffers too" same_grep $text
check "permute writes every order once" same_permute
iol-cat $text >/dev/null
check "nothing is copied between two of them" no_copies $text
check "ordinary programs say the same with libiolstdio" same_stdio $text
check "fork copies what is in their streams" same_fork $text
check "a file that only read(2) can read is read, too" same_proc
check "and nothing is copied between two of those" no_stdio_copies $text
rm $text
unload() {
	for _ in $(seq 300); do
		rmmod iolite 2>/dev/null && return 0
		sleep 0.1
	done
	return 1
}
check "the module unloads" unload
finish
