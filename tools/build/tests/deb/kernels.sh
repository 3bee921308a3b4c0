#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # root.sh says what root, version, before, old_debs and new_debs are
# kernels.sh [CODENAME...] - kernels come and go in clean roots of Debian 12 and 13, and DKMS has the modules for each.
#
# `make deb-kernels` builds the packages and runs this. It takes an hour or more and 3 GB of the mirror's
# packages: three kernels with their headers for each root, and the modules built for them by its own compiler.
FLT_TOP=$(cd "$(dirname "$0")/../../../.." && pwd)
. "$FLT_TOP/tools/testing/lib.sh"
. "$FLT_TOP/tools/build/tests/deb/root.sh"
[ $# != 0 ] || set -- bookworm trixie
export LC_ALL=C
mapfile -t modules < <(sed -n 's/^BUILT_MODULE_NAME.*="\(.*\)"/\1/p' dkms.conf | sort)

# Kernels whose headers the root's sources have, oldest first, of the series that is supported.
kernels() {
	in_root apt-cache pkgnames linux-headers-6.12. | sed -nE 's/^linux-headers-(6\.12\.[0-9]+\+deb[0-9]+-amd64)$/\1/p' | sort -V
}

# built KERNEL: the modules that DKMS has installed for it, with their versions, and who signed them.
built() {
	local module path
	for path in "$root/lib/modules/$1"/updates/dkms/*.ko*; do
		module=${path##*/}
		module=${module%%.ko*}
		echo "$module $(in_root modinfo -k "$1" -F version "$module") $(in_root modinfo -k "$1" -F vermagic "$module" | cut -d' ' -f1)" \
			"$(in_root modinfo -k "$1" -F signer "$module")"
	done
}

# all VERSION KERNEL: what built should say.
all() { printf "%s $1 $2 DKMS module signing key\n" "${modules[@]}"; }

left() { (cd "$root" && find var/lib/dkms/flotilla* lib/modules/*/updates usr/src/flotilla* 2>/dev/null; grep -l 'flotilla\.ko' lib/modules/*/modules.dep); }

release_test() {
	local release=$1 first last rt
	first=$(kernels | head -n1) last=$(kernels | tail -n1)
	[ "$first" != "$last" ] || bail "$release has no two kernels: $first"
	rt=${last%-amd64}-rt-amd64
	# Without openssl DKMS signs nothing.
	must apt install --no-install-recommends openssl
	check "$release: a kernel and the packages are installed" \
		apt install --no-install-recommends "linux-headers-$first" "${old_debs[@]}"
	equal "$release: DKMS has built all modules for $first" "$(all "$before" "$first")" "$(built "$first")"
	check "$release: the kernel is upgraded" apt install --no-install-recommends "linux-headers-$last"
	equal "$release: DKMS has built them for $last" "$(all "$before" "$last")" "$(built "$last")"
	equal "$release: those of the kernel before stay" "$(all "$before" "$first")" "$(built "$first")"

	check "$release: the packages are upgraded" apt install --no-install-recommends "${new_debs[@]}"
	equal "$release: the newest kernel has the new modules" "$(all "$version" "$last")" "$(built "$last")"
	check "$release: the other gets them when it boots" in_root dkms autoinstall -k "$first"
	equal "$release: all of them" "$(all "$version" "$first")" "$(built "$first")"
	# The packages' modules in the kernel that guests boot.
	if [ "$last" = "$(tools/build/kernel release)" ]; then
		must apt install --no-install-recommends iproute2 procps
		check "$release: machines become a cluster by the lines of README" \
			tools/vm/guest --mem 2G --timeout 1200 -- tools/build/tests/deb/nodes.sh "$root"
	fi

	check "$release: a kernel of another flavour comes" apt install --no-install-recommends "linux-headers-$rt"
	equal "$release: DKMS has built them for $rt" "$(all "$version" "$rt")" "$(built "$rt")"

	if [ "$release" = bookworm ]; then
		check "$release: an older kernel than is supported is no error" apt install --no-install-recommends linux-headers-amd64
		equal "$release: and gets nothing" "" "$(find "$root"/lib/modules/6.1.*/updates 2>/dev/null)"
	fi
	check "$release: a kernel goes" apt purge --autoremove "linux-headers-$first" "linux-image-$first"
	equal "$release: with its modules" "" "$(find "$root/lib/modules/$first/updates" "$root/var/lib/dkms/flotilla/kernel-$first"* 2>/dev/null)"
	check "$release: the packages are purged" apt purge "${names[@]}"
	equal "$release: nothing of them is left" "" "$(left)"
}

for release; do
	with_root "$release" release_test "$release"
done
finish
