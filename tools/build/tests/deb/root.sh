# shellcheck shell=bash disable=SC2034,SC2154 # for the tests of the packages, which source this after lib.sh
# SPDX-License-Identifier: GPL-2.0
# Clean roots of Debian, and the packages of this version and of another to install there.
#
# It takes root, debootstrap and the mirrors that this machine is configured with. Clean roots, and what apt fetched
# for them, are kept in the cache.
cd "$FLT_TOP" || exit

[ "$(id -u)" = 0 ] || skip_all "making a root takes root"
need debootstrap unshare chroot dpkg-deb apt-get
cache=${FLOTILLA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flotilla}/roots
version=$(cat VERSION)
before=0.1.0

packages() { find "$1" -maxdepth 1 -name "*_${2}_*.deb" ! -name '*-dbgsym_*' 2>/dev/null | sort; }
mapfile -t new < <(packages build/deb "$version")
mapfile -t old < <(packages build/deb/$before $before)
[ ${#new[@]} != 0 ] || skip_all "there are no packages in build/deb; run 'make deb'"
[ ${#old[@]} = ${#new[@]} ] || skip_all "there are no packages of version $before; run 'tools/build/deb $before'"
mapfile -t names < <(for deb in "${new[@]}"; do dpkg-deb -f "$deb" Package; done)

# Where the machine's own packages and their security updates come from.
site=$(tools/build/site)
security=$(tools/build/site -security)
[ -n "$site" ] || skip_all "no mirror of this release is configured"

# in_root COMMAND...: with /proc, in a mount namespace that ends with it. No kernel that comes gets an initramfs.
in_root() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$0/proc" && mount --bind "$1" "$0/var/cache/apt/archives" && shift && exec chroot "$0" "$@"
	' "$root" "$cache/archives" \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive INITRD=No "$@"
}

apt() { in_root apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Keep-Downloaded-Packages=1 "$@"; }

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

# with_root RELEASE COMMAND...: $root is such a root while the command runs, with our packages in /debs/old and /debs/new
# ($old_debs and $new_debs, as the root names them). One of the last week serves, so that nothing in it is upgraded with ours.
with_root() {
	local release=$1
	shift
	root=$(mktemp -d "$cache/$release.XXXXXX")
	at_exit rm -rf "$root"
	chmod 755 "$root"
	if { find "$cache/$release.tar" -mtime -7 2>/dev/null | grep -q . && tar -xf "$cache/$release.tar" -C "$root"; } ||
		{ find "$root" -mindepth 1 -delete && base "$release"; }; then
		mkdir -p "$root/debs/old" "$root/debs/new"
		cp "${old[@]}" "$root/debs/old"
		cp "${new[@]}" "$root/debs/new"
		mapfile -t old_debs < <(cd "$root" && printf '/%s\n' debs/old/*.deb)
		mapfile -t new_debs < <(cd "$root" && printf '/%s\n' debs/new/*.deb)
		apt update >/dev/null 2>&1
		"$@"
	else
		tail -n 5 "$log" | sed 's/^/# /'
		skip "packages in a root of $release" "no such root can be made, see above"
	fi
	rm -rf "$root"
}

mkdir -p "$cache/archives"
log=$(mktemp)
root=
at_exit rm -f "$log"
