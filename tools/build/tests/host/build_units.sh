#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# shellcheck disable=SC2016 # a script for another shell
# The packages' scripts: what is removed stops, what is purged is enabled no more, and an upgrade stops nothing.
. "$FLT_TOP/tools/testing/lib.sh"
need make dh_installsystemd unshare

tree=$(mktemp -d)
at_exit rm -rf "$tree"
mkdir -p "$tree/tools/build" "$tree/bin"
cp -r "$FLT_TOP/debian" "$tree"
mkdir -p "$tree/debian/tmp/usr/lib/systemd/system"
cp "$FLT_TOP"/tools/70-flotilla.rules "$tree/tools"
cp "$FLT_TOP"/{kmod/afpa/door,lard,tools/*}/*.service "$FLT_TOP"/tools/*/*.socket "$tree/debian/tmp/usr/lib/systemd/system"
mapfile -t units < <(cd "$tree/debian/tmp/usr/lib/systemd/system" && printf '%s\n' *[!@].s* | grep -v @)
echo '#!/bin/sh' | tee "$tree/tools/build/dkms" >"$tree/bin/deb-systemd-invoke"
echo 'echo "$@" >&2' >>"$tree/bin/deb-systemd-invoke"
chmod +x "$tree/tools/build/dkms" "$tree/bin/deb-systemd-invoke"
cd "$tree" || bail "no tree"
must make -s -f debian/rules MAKE=true override_dh_auto_install override_dh_installsystemd
must dh_installdeb -pflotilla -pflotilla-follow -pflash -pafpad

# told_to_stop ARGUMENT: the units, by the scripts before removal, where systemd runs.
told_to_stop() {
	local package
	for package in flotilla flotilla-follow flash afpad; do
		[ ! -e debian/$package/DEBIAN/prerm ] ||
			unshare -rm sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH=$1:$PATH exec sh "$2" "$3"' \
				sh "$tree/bin" "debian/$package/DEBIAN/prerm" "$1" 2>&1
	done | tr ' ' '\n' | grep -v '^stop$' | sort | paste -sd' '
}

# installed DIRECTORY...
installed() {
	find "$@" -type f -printf '%f\n' 2>/dev/null | sort
}

purged() {
	cat debian/{flotilla,flotilla-follow,flash,afpad}/DEBIAN/postrm | grep -oP "deb-systemd-helper purge '\K[^']+" | sort | paste -sd' '
}

unshare -rm true || bail "no mount namespaces here"
all=$(printf '%s\n' "${units[@]}" | sort | paste -sd' ')
equal "there are units" 7 ${#units[@]}
equal "each is installed" "$all flotilla-metrics@.service" \
	"$(installed debian/{flotilla,flotilla-follow,flash,afpad}/{usr/,}lib/systemd/system | paste -sd' ') $(installed debian/tmp/usr/lib/systemd/system)"
check "the one without a name of its own by the package's list" \
	grep -qx usr/lib/systemd/system/flotilla-metrics@.service debian/flotilla.install
equal "what is removed stops" "$all" "$(told_to_stop remove)"
equal "an upgrade stops nothing" "" "$(told_to_stop upgrade)"
equal "what is purged is enabled no more" "$all" "$(purged)"
finish
