#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh SERVER: bench/pathlen's guest, which also serves its kernel's symbols.
set -euo pipefail

mkdir -p /run/www
cat /proc/kallsyms >/run/www/kallsyms
exec "$(dirname "$(readlink -f "$0")")/../pathlen/guest.sh" "$@"
