#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# policies.sh REQUESTS MEGABYTES:POLICY...: in the guest of `policies`, the trace by each on an empty cache.
set -eu

requests=$1
shift
modprobe -a loop ext4
truncate -s 2G /tmp/iolite.disk
mkfs.ext4 -q -N 60000 /tmp/iolite.disk
mkdir -p /run/www
mount -o loop /tmp/iolite.disk /run/www
for case; do
	modprobe iolite cache_max=$((${case%:*} << 20))
	cd /sys/module/iolite/parameters
	case $case in
	*:gds*) echo Y >gds ;;
	esac
	case $case in
	*packets) echo 1 >gds_cost ;;
	esac
	cd /
	"$FLT_TOP/build/tests/iol-trace" "$FLT_RESULTS/rice" /run/www "$requests"
	rmmod iolite
done
umount -d /run/www
