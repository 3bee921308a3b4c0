#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# Modules, programs, libraries and packages have one version, and it stands in one place: VERSION.
. "$FLT_TOP/tools/testing/lib.sh"
need make gcc pkg-config modinfo

tree=$(mktemp -d)
at_exit rm -rf "$tree"
cd "$FLT_TOP" || exit
version=$(cat VERSION)

other() { # PATH...: those whose version, as VERSION_OF prints it, is another
	local path
	for path; do
		[ "$(version_of "$path")" = "$version" ] || echo "$path: $(version_of "$path")"
	done
}

version_of() { modinfo -F version "$1"; }
mapfile -t modules < <(sed -n 's/^obj-m += //p' ./*/Kbuild | tr ' ' '\n' | sed -n 's|\(.*\)\.o$|build/modules/\1.ko|p')
claim "there are modules" $((${#modules[@]} < 8)) "${modules[*]}"
equal "each module has the version" "" "$(other "${modules[@]}")"

version_of() { "$1" --version </dev/null 2>&1 | cut -d' ' -f2 | tr -d ,; }
mapfile -t programs < <(make -s -f - names <<<$'include Makefile\nnames:\n\t@printf "%s\\n" $(PROGRAMS:%=build/bin/%)')
claim "there are programs" $((${#programs[@]} < 9)) "${programs[*]}"
equal "each program says it" "" "$(other "${programs[@]}")"

equal "the packages have it" "$version" "$(sed -n '1s/^flotilla (\(.*\)) .*/\1/p' debian/changelog)"
equal "it is the newest of which something is told" "## $version" "$(grep -m1 '^## ' CHANGELOG.md)"

# A clean tree with a version of its own.
mkdir -p "$tree/tools/build" "$tree/room"
cp Makefile "$tree"
cp tools/build/{user-space.mk,install} "$tree/tools/build"
cp tools/{70-flotilla.rules,flotilla.*} "$tree/tools"
echo 9.8.7 >"$tree/VERSION"
echo 'const char *it(void); const char *it(void) { return FLT_VERSION; }' >"$tree/room/it.c"
printf '%s\n' 'LIBRARIES += libit libin' 'libit_SRCS := room/it.c' 'libit_ABOUT := Says what it is' \
	'libin_SRCS := room/it.c' >"$tree/room/user.mk"
printf '#!/bin/sh\n' >"$tree/tools/build/modules"
chmod +x "$tree/tools/build/modules"
installed() { env -u KDIR -u MAKEFLAGS make -s -C "$tree" install DESTDIR="$tree/dest" PREFIX=/usr; }
check "a library is installed" installed
export PKG_CONFIG_LIBDIR=$tree/dest/usr/lib/pkgconfig
equal "pkg-config knows the library's version" 9.8.7 "$(pkg-config --modversion libit)"
equal "and how to link it" "-L/usr/lib -lit" "$(PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --libs libit | xargs)"
equal "a library that no program links has no entry" libit.pc "$(ls "$tree/dest/usr/lib/pkgconfig")"
echo 9.8.8 >"$tree/VERSION"
check "with another version" installed
equal "the entry is made anew" 9.8.8 "$(pkg-config --modversion libit)"
equal "and what is compiled" 9.8.8 "$(grep -ao '9\.8\.[0-9]' "$tree/dest/usr/lib/libit.so" | sort -u | xargs)"

# What DKMS gets, built by the kernel's own call.
if ! kdir=$(tools/build/kernel kdir 2>&1); then
	skip "a module built as DKMS does has the version of its tree" "$kdir"
	finish
fi
check "the sources are put in place" tools/build/dkms "$tree/dkms"
source=$tree/dkms/usr/src/flotilla-$version
echo 9.8.7 >"$source/VERSION"
check "a file of a module builds" env -u MAKEFLAGS make -s -C "$kdir" M="$source" iolite/main.o
must cp "$source/iolite/main.o" "$tree/main.ko"
equal "a module built as DKMS does has the version of its tree" 9.8.7 "$(modinfo -F version "$tree/main.ko")"
rm "$source/VERSION" "$source/iolite/main.o"
refuse "without a version nothing is built" env -u MAKEFLAGS make -s -C "$kdir" M="$source" iolite/main.o
finish
