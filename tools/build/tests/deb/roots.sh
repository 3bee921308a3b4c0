#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# roots.sh [CODENAME...] - install, upgrade and purge the packages in clean roots of Debian 12 and 13 (bookworm,
# trixie).
#
# `make deb-test` builds the packages and runs this. It needs root, debootstrap and the mirrors that this machine is
# configured with; the clean roots are kept in the cache. There are no kernel's headers, so DKMS builds nothing.
FLT_TOP=$(cd "$(dirname "$0")/../../../.." && pwd)
. "$FLT_TOP/tools/testing/lib.sh"
cd "$FLT_TOP" || exit

[ "$(id -u)" = 0 ] || skip_all "making a root takes root"
need debootstrap unshare chroot dpkg-deb apt-get
cache=${FLOTILLA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flotilla}/roots
version=$(cat VERSION)
before=0.1.0
[ $# != 0 ] || set -- bookworm trixie

packages() { find "$1" -maxdepth 1 -name "*_${2}_*.deb" ! -name '*-dbgsym_*' 2>/dev/null | sort; }
mapfile -t new < <(packages build/deb "$version")
mapfile -t old < <(packages build/deb/$before $before)
[ ${#new[@]} != 0 ] || skip_all "there are no packages in build/deb; run 'make deb'"
[ ${#old[@]} = ${#new[@]} ] || skip_all "there are no packages of version $before; run 'tools/build/deb $before'"
mapfile -t names < <(for deb in "${new[@]}"; do dpkg-deb -f "$deb" Package; done)

# Where the machine's own packages and their security updates come from.
# shellcheck disable=SC2016 # apt's own variables
sites=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 'Created-By: Packages' | sort -u)
own=$(. /etc/os-release && echo "$VERSION_CODENAME")
site=$(awk -v c="$own" '$2 == c { print $1; exit }' <<<"$sites")
security=$(awk -v c="$own-security" '$2 == c { print $1; exit }' <<<"$sites")
[ -n "$site" ] || skip_all "no mirror of $own is configured"

# in_root COMMAND...: with /proc, in a mount namespace that ends with it.
in_root() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

apt() { in_root apt-get -q -y -o Dpkg::Use-Pty=0 "$@"; }

# A clean root with what our packages depend on.
base() {
	local release=$1 depends
	echo "# making a root of $release" >&2
	debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$site" >"$log" 2>&1 || return
	{
		echo "deb $site $release main"
		[ -z "$security" ] || echo "deb $security $release-security main"
	} >"$root/etc/apt/sources.list"
	rm -f "$root"/etc/apt/sources.list.d/*
	# Proxies and the like are the machine's.
	apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99machine"
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
	chmod +x "$root/usr/sbin/policy-rc.d"
	cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
	apt update >>"$log" 2>&1 || return
	depends=$(for deb in "${new[@]}"; do dpkg-deb -f "$deb" Depends Pre-Depends | sed 's/^[^:]*: //' | tr ',' '\n'; done |
		sed 's/^ *//' | sort -u | grep -vE "^($(IFS='|'; echo "${names[*]}")) " | paste -sd,)
	apt satisfy --no-install-recommends "$depends" >>"$log" 2>&1 || return
	tar -C "$root" -cf "$cache/$release.new" . && mv "$cache/$release.new" "$cache/$release.tar"
}

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

enabled() { (cd "$root/etc/systemd/system" && find . -type l \( -name 'lardd*' -o -name 'flash*' -o -name 'flotilla*' \)) 2>/dev/null; }

release_test() {
	local release=$1 snap after before_debs now_debs
	# Of the last week, so that nothing in it is upgraded with ours.
	if ! { find "$cache/$release.tar" -mtime -7 2>/dev/null | grep -q . && tar -xf "$cache/$release.tar" -C "$root"; } &&
		! { find "$root" -mindepth 1 -delete && base "$release"; }; then
		tail -n 5 "$log" | sed 's/^/# /'
		skip "packages in a root of $release" "no such root can be made, see above"
		return
	fi
	mkdir -p "$root/debs/old" "$root/debs/new"
	cp "${old[@]}" "$root/debs/old"
	cp "${new[@]}" "$root/debs/new"
	mapfile -t before_debs < <(cd "$root" && printf '/%s\n' debs/old/*.deb)
	mapfile -t now_debs < <(cd "$root" && printf '/%s\n' debs/new/*.deb)
	apt update >/dev/null 2>&1
	snap=$(snapshot)

	check "$release: the packages install" apt install --no-install-recommends "${before_debs[@]}"
	equal "$release: nothing is started at boot unasked" "" "$(enabled)"
	check "$release: the command line runs" in_root flotilla --version
	check "$release: the user is there" in_root getent passwd flotilla

	echo '# mine' >>"$root/etc/flotilla/lardd.conf"
	echo secret >"$root/etc/flotilla/key"
	mkdir -p "$root/var/log/flotilla" "$root/var/log/flash"
	touch "$root/var/log/flotilla/access.log" "$root/var/log/flash/access.log"
	check "$release: the packages are upgraded" apt install --no-install-recommends "${now_debs[@]}"
	equal "$release: the old sources are gone" "flotilla-$version" "$(cd "$root/usr/src" && echo flotilla-*)"
	check "$release: what was changed in /etc stays" grep -q mine "$root/etc/flotilla/lardd.conf"
	equal "$release: still nothing starts at boot unasked" "" "$(enabled)"
	equal "$release: programs are of this version" "flash $version" "$(in_root flash --version)"

	check "$release: the packages are purged" apt purge "${names[@]}"
	# The user stays, as Debian's packages leave theirs.
	must sed -i '/^flotilla:/d' "$root"/etc/{passwd,group,shadow,gshadow}
	after=$(snapshot)
	equal "$release: nothing is left but the user" "" "$(diff <(echo "$snap") <(echo "$after") | grep '^[<>]')"
}

mkdir -p "$cache"
log=$(mktemp)
root=
at_exit rm -f "$log"
for release; do
	root=$(mktemp -d "$cache/$release.XXXXXX")
	at_exit rm -rf "$root"
	chmod 755 "$root"
	release_test "$release"
	rm -rf "$root"
done
finish
