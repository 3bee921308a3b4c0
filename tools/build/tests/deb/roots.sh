#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # root.sh says what root, version, names, old_debs and new_debs are
# roots.sh [CODENAME...] - install, upgrade and purge the packages in clean roots of Debian 12 and 13 (bookworm,
# trixie).
#
# `make deb-test` builds the packages and runs this. There are no kernel's headers here, so DKMS builds nothing: see
# kernels.sh.
FLT_TOP=$(cd "$(dirname "$0")/../../../.." && pwd)
. "$FLT_TOP/tools/testing/lib.sh"
. "$FLT_TOP/tools/build/tests/deb/root.sh"
[ $# != 0 ] || set -- bookworm trixie

# Every path with what it is. Not what apt, dpkg, depmod, ldconfig and the like keep for all packages.
snapshot() {
	(
		cd "$root" || exit
		places=(\( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./debs -o -path ./var/cache -o -path ./var/lib/apt
			-o -path ./var/log/apt -o -path ./var/lib/dpkg/triggers \) -prune -o)
		find . -xdev "${places[@]}" ! -type f -printf '%p %M %l\n'
		find . -xdev "${places[@]}" -type f -print0 | xargs -0 sha256sum | sed -E 's/^([0-9a-f]+)  (.*)/\2 \1/'
	) | grep -vE '^\./(var/lib/dpkg/[a-z-]+|var/log/[a-z.]+|etc/ld\.so\.cache|etc/[a-z]+-) ' | sort
}

# Of the units that the packages have, those that a boot would start.
enabled() {
	local units
	units=$(for deb in "${new[@]}"; do dpkg-deb -c "$deb"; done | sed -nE 's|.*/systemd/system/([^/]+)$|\1|p')
	(cd "$root/etc/systemd/system" 2>/dev/null && find . -type l) | grep -F "${units:-none}"
}

release_test() {
	local release=$1 snap after
	snap=$(snapshot)

	check "$release: the packages install" apt install --no-install-recommends "${old_debs[@]}"
	equal "$release: nothing is started at boot unasked" "" "$(enabled)"
	check "$release: the command line runs" in_root flotilla --version
	check "$release: the users are there" in_root getent passwd flotilla afpad

	echo '# mine' >>"$root/etc/flotilla/lardd.conf"
	echo secret >"$root/etc/flotilla/key"
	mkdir -p "$root/var/log/flotilla" "$root/var/log/flash"
	touch "$root/var/log/flotilla/access.log" "$root/var/log/flash/access.log"
	check "$release: the packages are upgraded" apt install --no-install-recommends "${new_debs[@]}"
	equal "$release: the old sources are gone" "flotilla-$version" "$(cd "$root/usr/src" && echo flotilla-*)"
	check "$release: what was changed in /etc stays" grep -q mine "$root/etc/flotilla/lardd.conf"
	equal "$release: still nothing starts at boot unasked" "" "$(enabled)"
	equal "$release: programs are of this version" "flash $version" "$(in_root flash --version)"

	check "$release: the packages are purged" apt purge "${names[@]}"
	# The users stay, as Debian's packages leave theirs.
	must sed -i -E '/^(flotilla|afpad):/d' "$root"/etc/{passwd,group,shadow,gshadow}
	after=$(snapshot)
	equal "$release: nothing is left but the users" "" "$(diff <(echo "$snap") <(echo "$after") | grep '^[<>]')"
}

for release; do
	with_root "$release" release_test "$release"
done
finish
