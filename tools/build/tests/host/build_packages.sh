#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# What `make install` puts somewhere is in a package, as `make deb` asks, and what a package lists is there.
. "$FLT_TOP/tools/testing/lib.sh"
need make dh_install dh_missing

tree=$(mktemp -d)
at_exit rm -rf "$tree"
ln -s "$FLT_TOP"/* "$tree"
rm "$tree/debian"
cp -r "$FLT_TOP/debian" "$tree"
cd "$tree" || bail "no tree"
export -n MAKEFLAGS KDIR
[ -d build/bin ] || skip_all "nothing is built"
# As it was built: no test builds what others run just now.
must make -s -f debian/rules MAKE="make -s -o programs" override_dh_auto_install
installed() { (cd debian/tmp && find . ! -type d | sed 's/^\.//' | sort); }

claim "it installs" $(($(installed | wc -l) < 90)) "$(installed)"
equal "no example is a configuration" "/etc/flash.conf /etc/flotilla/afpad.conf /etc/flotilla/lardd.conf" \
	"$(installed | grep '^/etc/.*\.conf$' | grep -v '\.d/' | paste -sd' ')"
equal "each program has a manual page" "" "$(installed | sed -n 's|^/usr/bin/||p' | while read -r name; do
	[ -e debian/tmp/usr/share/man/man1/$name.1 ] || [ -e debian/tmp/usr/share/man/man8/$name.8 ] || echo "$name"
done)"
check "what a package lists is installed" dh_install
check "what is installed is in a package" dh_missing --fail-missing
finish
