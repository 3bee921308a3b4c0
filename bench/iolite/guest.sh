#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh: in the counted guest, count the programs, then serve the same files in three ways on ports 8080
# to 8082, and answer snapshots on port 8090 until told to quit.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
www=/run/www
disk=/tmp/iolite.disk
mkdir -p $www
modprobe -a loop ext4 iolite
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
truncate -s 64M $disk
mkfs.ext4 -q $disk
mount -o loop $disk $www
for size in 4096 65536 200000; do
	head -c $size /dev/zero | tr '\0' x >$www/f$size
done
python3 "$here/programs.py" >$www/programs.json
port=8080
for transfer in sendfile mmap iolite; do
	flash --port $port --root $www --workers 1 --memory_file 0 --transfer $transfer >>/run/flash.log 2>&1 &
	port=$((port + 1))
done
exec python3 "$here/../pathlen/snapshot.py" 8090
