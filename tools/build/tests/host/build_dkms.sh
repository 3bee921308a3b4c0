#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# What DKMS gets is the kernel side, whole: each object that a Kbuild names has its source, each include its header.
. "$FLT_TOP/tools/testing/lib.sh"
need find sed

root=$(mktemp -d)
at_exit rm -rf "$root"
version=$(cat "$FLT_TOP/VERSION")
tree=$root/usr/src/flotilla-$version
check "the sources are put in place" "$FLT_TOP/tools/build/dkms" "$root"
cd "$tree" || bail "there is no $tree"

# A module of one file is named like it, others list theirs.
objects() {
	local kbuild module
	for kbuild in */Kbuild kmod/*/Kbuild; do
		module=$(sed -n 's/^obj-m += //p' "$kbuild" | sed 's/\.o\b//g')
		sed -e ':a;/\\$/{N;s/\\\n//;ba}' "$kbuild" | sed -nE 's/^[a-z_]+-y \+?:?= //p' | tr -s ' \t' '\n' | grep '\.o$' |
			sed "s|^|${kbuild%/*}/|; s|\.o$|.c|"
		[ -n "$module" ] || echo "$kbuild names no module"
	done
}
missing=$(for file in $(objects); do [ -e "$file" ] || echo "$file"; done)
equal "each object has its source" "" "$missing"
claim "there are many" $(($(objects | wc -l) < 100)) "$(objects)"

included() {
	find . -name '*.[ch]' | while read -r file; do
		sed -n 's/^#include "\(.*\)"/\1/p' "$file" | while read -r header; do
			[ -e "${file%/*}/$header" ] || [ -e "$header" ] || [ -e "kmod/$header" ] || echo "$file: $header"
		done
	done
}
equal "each header of ours is there" "" "$(included)"
equal "nothing of user space is" "" "$(find . -path '*/tests/*' -o -path '*/lib/*')"
check "the configuration names the version" grep -qx "PACKAGE_VERSION=\"$version\"" dkms.conf
named=$(sed -n 's/^BUILT_MODULE_NAME.*="\(.*\)"/\1/p' dkms.conf | sort)
built=$(sed -n 's/^obj-m += //p' ./*/Kbuild ./kmod/*/Kbuild | tr ' ' '\n' | sed -n 's/\.o$//p' | sort)
equal "and every module that is built" "$built" "$named"

# What an operator of Kubernetes builds is made of the same sources, by the same call.
examples=$FLT_TOP/tools/follow/examples
equal "examples for Kubernetes name this version" "" "$(grep -hoE 'flotilla[a-z-]*[:-][0-9]+\.[0-9]+\.[0-9]+' \
	"$examples"/kubernetes*.yaml | grep -v "[:-]${version//./\\.}$")"
equal "and build as DKMS does" "$(sed -n 's/^MAKE.*\/build \(.*\)"$/\1/p' dkms.conf)" \
	"$(sed -n 's/.*M=\/usr\/src\/flotilla \(.*modules\)$/\1/p' "$examples/kubernetes-modules.yaml")"

# As a user has it who trusts his group; root compiles and loads it at each new kernel.
mkdir -p "$root/theirs"
# shellcheck disable=SC2046 # rooms are words
tar -C "$FLT_TOP" -c Kbuild VERSION dkms.conf tools/build $(grep -v / "$FLT_TOP/tools/build/rooms") | tar -C "$root/theirs" -x
chmod -R a+w "$root/theirs"
[ "$(id -u)" != 0 ] || chown -R nobody "$root/theirs"
check "it goes from anybody's tree" sh -c "umask 0 && exec '$root/theirs/tools/build/dkms' '$root/open'"
claim "with all of it" $(($(find "$root/open" -type f | wc -l) != $(find "$tree" -type f | wc -l)))
equal "and is nobody else's to write" "" "$(find "$root/open" ! -user "$(id -un)" -o -perm /022)"

# A room by itself, beside the symbols of flotilla.ko, which the build of the whole tree has left.
kdir=$("$FLT_TOP/tools/build/kernel" kdir stock)
cp "$FLT_TOP/build/kbuild/Module.symvers" kmod/
check "a room is built by itself" make -C "$kdir" "M=$tree/splice" modules
equal "and has the version" "$version" "$(modinfo -F version splice/sksplice.ko)"
finish
