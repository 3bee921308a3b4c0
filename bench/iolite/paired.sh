#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# paired.sh ROUNDS REQUESTS SIZE SET [DIRECTORY]: in the guest of `paired`, each way of iol-relay in each round; with
# a directory, here, and without those that need the module.
set -eu

relay=${FLT_TOP:-$(dirname "$(readlink -f "$0")")/../..}/build/tests/iol-relay
ways="file-mmap file-sendfile pipe-copy pipe-splice"
if [ $# -lt 5 ]; then
	ways+=" file-iolite pipe-iolite"
	modprobe -a loop ext4 iolite
	mkdir -p /run/www
	truncate -s 256M /tmp/iolite.disk
	mkfs.ext4 -q /tmp/iolite.disk
	mount -o loop /tmp/iolite.disk /run/www
	ip link set lo up
fi
cd "${5:-/run/www}"
export RELAY_SET=$4
for ((round = 0; round < $1; round++)); do
	echo "round $round"
	for way in $ways; do
		"$relay" "$way" "$3" "$2"
	done
done
