#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# inside.sh REQUESTS: in a counted guest, every way of iol-relay at three sizes, and what iolite counted, as lines
# of JSON.
set -eu

modprobe -a loop ext4 iolite
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mkdir -p /run/www
truncate -s 64M /tmp/iolite.disk
mkfs.ext4 -q /tmp/iolite.disk
mount -o loop /tmp/iolite.disk /run/www
ip link set lo up
for size in 4096 65536 200000; do
	for way in file-mmap file-sendfile file-iolite file-iolite-calls pipe-copy pipe-splice pipe-iolite; do
		echo 0 >/sys/kernel/debug/iolite/counters
		"$FLT_TOP/build/tests/iol-relay" $way $size "$1"
		case $way in
		*iolite*)
			awk '$2 { printf "%s\"%s\": %s", n++ ? ", " : "{", $1, $2 } END { print "}" }' \
				/sys/kernel/debug/iolite/counters
		esac
	done
done
