#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# inside.sh REQUESTS [WAY SIZE PAUSE]: in a counted guest, every way of iol-relay at three sizes, and what iolite
# counted, as lines of JSON; or one way at one size, for `where`.
set -eu

relay=$FLT_TOP/build/tests/iol-relay

modprobe -a loop ext4 iolite
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mkdir -p /run/www
truncate -s 64M /tmp/iolite.disk
mkfs.ext4 -q /tmp/iolite.disk
mount -o loop /tmp/iolite.disk /run/www
ip link set lo up
cd /run/www
if [ $# -gt 1 ]; then
	cat /proc/kallsyms >"$FLT_RESULTS/kallsyms"
	# Without randomisation the program's functions are where `where` expects them.
	exec setarch -R "$relay" "$2" "$3" "$1" "$4"
fi
for size in 4096 65536 200000; do
	for way in file-mmap file-sendfile file-iolite file-iolite-calls pipe-copy pipe-splice pipe-iolite \
		pipe-iolite-calls; do
		echo 0 >/sys/kernel/debug/iolite/counters
		"$relay" $way $size "$1"
		case $way in
		*iolite*)
			awk '$2 { printf "%s\"%s\": %s", n++ ? ", " : "{", $1, $2 } END { print "}" }' \
				/sys/kernel/debug/iolite/counters
		esac
	done
done
