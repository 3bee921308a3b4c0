#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# `make install` installs what was built, for the kernel that it was built for, and no more.
. "$FLT_TOP/tools/testing/lib.sh"
need make gcc strip readelf

tree=$(mktemp -d)
at_exit rm -rf "$tree"
mkdir -p "$tree/tools/build" "$tree/build/kbuild" "$tree/build/modules" "$tree/room"
cp "$FLT_TOP/Makefile" "$tree"
cp "$FLT_TOP"/tools/build/{install,user-space.mk,deps,deps.list} "$tree/tools/build"
cp "$FLT_TOP"/tools/{70-flotilla.rules,flotilla.*} "$tree/tools"
# In place of a build, which kernel it would be for.
cat >"$tree/tools/build/modules" <<-'end'
	#!/bin/bash
	echo "${KDIR:-the one of guests}" >build/built-for
end
chmod +x "$tree/tools/build/modules"
echo 'int main(void) { return 0; }' | tee "$tree/room/tool.c" >"$tree/room/inside.c"
printf 'LIBRARIES += libit\nlibit_SRCS := room/it.c\nlibit_ABOUT := it\n' >"$tree/room/user.mk"
echo 'int it(void); int it(void) { return 0; }' >"$tree/room/it.c"
printf 'PROGRAMS += tool\ntool_SRCS := room/tool.c\nLOCAL_PROGRAMS += inside\ninside_SRCS := room/inside.c\n' >>"$tree/room/user.mk"
mkdir -p "$tree/lard" "$tree/tools/tool/monitoring"
touch "$tree/tools/tool/monitoring"/{alerts.yml,dashboard.json,README.md}
mkdir -p "$tree/kmod/afpa/door"
touch "$tree/lard/lardd.conf" "$tree/kmod/afpa/door/afpad.conf" "$tree/tools/tool/tool.conf"
echo 'ExecStart=/usr/local/bin/tool --config /etc/tool.conf' >"$tree/tools/tool/tool.service"
for module in flotilla flt_link_test flt_faulty; do
	gcc -g -c -o "$tree/build/modules/$module.ko" "$tree/room/tool.c"
done
install() { env -u KDIR -u MAKEFLAGS make -s -C "$tree" install DESTDIR="$tree/dest" "$@"; }

echo "/usr/src/headers 6.12.9" >"$tree/build/kbuild/.kdir"
check "it installs" install
equal "modules are for the kernel they were built for" /usr/src/headers "$(cat "$tree/build/built-for")"
check "another may be named" install KDIR=/usr/src/others
equal "and is taken" /usr/src/others "$(cat "$tree/build/built-for")"
modules=$tree/dest/lib/modules/6.12.9/updates/flotilla
equal "modules that only tests load stay away" flotilla.ko "$(ls "$modules")"
refuse "what is installed has no debug information" sh -c "readelf -S '$modules/flotilla.ko' | grep -q debug_info"
equal "programs for tests and benchmarks stay away" tool "$(ls "$tree/dest/usr/local/bin")"
equal "a library is there by the name that programs ask for" libit.so.0 \
	"$(readlink "$tree/dest/usr/local/lib/libit.so")"
equal "configurations are where units look for them" "flotilla/afpad.conf flotilla/lardd.conf tool.conf" \
	"$(cd "$tree/dest/etc" && echo flotilla/* *.conf)"
for file in modules-load.d/flotilla.conf sysctl.d/flotilla.conf tool.conf; do
	echo '# mine' >"$tree/dest/etc/$file" || bail "no /etc/$file"
done
rm -rf "$tree/dest/lib"
programs() {
	env -u KDIR -u MAKEFLAGS make -s -C "$tree" install-programs DESTDIR="$tree/dest" PREFIX=/usr LIBDIR=/usr/lib/here
}
check "programs are installed alone" programs
refuse "then without modules" test -e "$tree/dest/lib/modules"
equal "libraries go where they are told to" "libit.a libit.so libit.so.0" \
	"$(cd "$tree/dest/usr/lib/here" && echo libit*)"
equal "what was changed in /etc stays" 3 "$(cat "$tree"/dest/etc/{*.d/flotilla,tool}.conf | grep -c mine)"
equal "a unit starts what was installed" "ExecStart=/usr/bin/tool --config /etc/tool.conf" \
	"$(cat "$tree/dest/usr/lib/systemd/system/tool.service")"
equal "what Prometheus and Grafana read is shared" "alerts.yml dashboard.json" \
	"$(cd "$tree/dest/usr/share/flotilla" && echo *)"
check "but are built for tests" env -u MAKEFLAGS make -s -C "$tree" build/bin/inside

rm -rf "$tree/dest"
check "it installs whatever the umask" sh -c "umask 0 && exec env -u KDIR -u MAKEFLAGS make -s -C '$tree' install DESTDIR='$tree/dest'"
equal "and nobody else may write to it" "" "$(find "$tree/dest" ! -type l -perm /022)"
rm -rf "$tree/dest"
check "or the other way" sh -c "umask 077 && exec env -u KDIR -u MAKEFLAGS make -s -C '$tree' install DESTDIR='$tree/dest'"
equal "and everybody may read it" "" "$(find "$tree/dest" ! -perm -044)"

wanted() { bash -c '. /dev/stdin; wanted' <<<"groups=$1 VERSION_ID=$2; $(sed -n '/^wanted() {/,/^}/p' "$FLT_TOP/tools/build/deps")"; }
cd "$FLT_TOP" || exit
node=$(wanted node 13) all=$(wanted bench 13)
equal "what a node needs is part of all" "" "$(comm -23 <(sort <<<"$node") <(sort <<<"$all"))"
deb=$(wanted deb 12)
check "packages are made with what a node has and more" grep -q lintian <<<"$deb"
equal "of which all is what a node needs" "" "$(comm -23 <(wanted node 12 | sort) <(sort <<<"$deb"))"
refuse "and which neither tests nor benchmarks install" grep -q lintian <<<"$all"
refuse "nor is an emulator needed for it" grep -q qemu <<<"$deb"
refuse "a node needs no emulator and no servers" grep -qE 'qemu|nginx|apache|redis|matplotlib' <<<"$node"
check "tests do" grep -q qemu <<<"$all"
equal "a package of Debian 13 is not asked of 12" "" "$(grep ktls <<<"$(wanted bench 12)")"
finish
