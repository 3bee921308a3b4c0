#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# kernel: stock
# `make unload` takes out what stands on a room's module, too.
. "$FLT_TOP/tools/testing/lib.sh"

# Names of modules that are loaded, of those in the build.
loaded() {
	local module
	for module in "$FLT_MODULES"/*.ko; do
		module=$(basename "$module" .ko)
		[ ! -d "/sys/module/$module" ] || echo "$module"
	done | paste -sd,
}

load flotilla handoff uselect sksplice iolite card card_hscc card_hdc afpa afpa_memcached
equal "all are in" "afpa,afpa_memcached,card,card_hdc,card_hscc,flotilla,handoff,iolite,sksplice,uselect" "$(loaded)"
check "make unload" "$FLT_TOP/tools/build/load" --unload
equal "none is left" "" "$(loaded)"
check "once more there is nothing to do" "$FLT_TOP/tools/build/load" --unload
finish
