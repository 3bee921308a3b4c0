#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
# long: debug over a minute there
# A million entries: inserted, each found, refused beyond the limit, swept away, no memory kept.
. "$FLT_TOP/tools/testing/lib.sh"

entries=${ENTRIES:-1000000}
# There an entry is several times as large, and a leak detector keeps a note of each.
[ "${FLT_KIND:-}" != debug ] || entries=${ENTRIES:-50000}

used() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/MemAvailable/ { print $2 }' /proc/meminfo
}

load flotilla
modprobe -r handoff 2>/dev/null
before=$(used)
check "$entries entries come and go" insmod "$FLT_MODULES/hof_table_test.ko" entries="$entries"
dmesg | grep hof_table_test | tail -n 4 | sed 's/^/# /'
rmmod hof_table_test
# An entry takes 144 bytes and its share of the buckets; the kernel frees in its own time.
free_again() {
	after=$(used)
	[ $((before - after)) -lt $((entries / 25 + 10000)) ]
}
wait_for 60 free_again
claim "their memory is free again" $? "available before $before kB, after $after kB"
finish
