#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Figures are drawn from the data, all of them that a document names, and none is kept.
. "$(dirname "$0")/../../../tools/testing/lib.sh"

/usr/bin/python3 -c 'import matplotlib' 2>/dev/null || skip_all "there is no matplotlib (make deps)"
cd "$FLT_TOP" || bail "no $FLT_TOP"
check "all are drawn" bench/draw
named=$(grep -rhoE 'build/figures/[a-z0-9-]+\.svg' --include='*.md' --exclude-dir=build . | sort -u)
claim "documents name some" $(($(wc -w <<<"$named") < 10))
equal "and each is there" "" "$(for file in $named; do [ -s "$file" ] || echo "$file"; done)"
[ ! -e .git ] || equal "none is in the repository" "" "$(git ls-files bench | grep -E '\.(svg|png|pdf)$')"
finish
