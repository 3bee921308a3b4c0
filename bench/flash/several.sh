#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# several.sh SIZES ARGUMENTS...: in a counted guest, a flash for each ARGUMENTS, on ports from 8080 on, with files
# f<SIZE>; then bench/pathlen's snapshots on port 8090 until told to quit.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
www=/run/www
mkdir -p $www
for size in ${1:?which sizes}; do
	head -c "$size" /dev/zero | tr '\0' x >"$www/f$size"
done
shift
port=8080
for arguments; do
	# shellcheck disable=SC2086 # a list of words
	flash --port $((port++)) --root $www --workers 1 $arguments >>/run/flash.log 2>&1 &
done
exec python3 "$here/../pathlen/snapshot.py" 8090
