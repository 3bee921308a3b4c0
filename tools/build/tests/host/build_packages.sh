#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# What `make install` puts somewhere is in a package, as `make deb` asks, and what a package lists is there. No link between
# documents is dead, in the tree or in the package that has them.
. "$FLT_TOP/tools/testing/lib.sh"
need make dh_install dh_missing python3

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
	[ -e debian/tmp/usr/share/man/man1/"$name.1" ] || [ -e debian/tmp/usr/share/man/man8/"$name.8" ] || echo "$name"
done)"
check "what a package lists is installed" dh_install
check "what is installed is in a package" dh_missing --fail-missing

links=$FLT_TOP/tools/build/tests/lib/links.py
must make -s -f debian/rules execute_after_dh_installchangelogs
documents=$tree/debian/flotilla-doc/usr/share/doc/flotilla-doc
equal "each document is packaged" "" "$(comm -3 <(cd "$documents" && find . -name '*.md' | sort) \
	<(find -L . \( -path ./build -o -path ./debian \) -prune -o -name '*.md' -print | sort))"
equal "no link of the documents leads out of their package" "" "$("$links" "$documents")"
equal "nor is one of the tree dead" "" "$("$links" "$FLT_TOP")"
# shellcheck disable=SC2016 # code of a document
printf '%s\n' '# A title: here' '[a](b.md) [b](a.md#a-title-here) [c](#nowhere) [d](http://host/x.md) `[e](f.md)` [g](../x)' >"$tree/debian/tmp/a.md"
equal "a dead one is seen" "a.md: b.md a.md: #nowhere a.md: ../x" "$("$links" debian/tmp | paste -sd' ')"
finish
