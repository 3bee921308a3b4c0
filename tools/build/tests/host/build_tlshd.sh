#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Debian 13's package of tlshd becomes one for Debian 12: what it depends on is named anew, and nothing else. The
# package here is a toy, and so is the apt that fetches it.
. "$FLT_TOP/tools/testing/lib.sh"
need dpkg-deb apt-get

root=$(mktemp -d)
at_exit rm -rf "$root"
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mkdir -p "$root"/{bin,theirs/DEBIAN,theirs/usr/sbin}
echo '#!/bin/sh' >"$root/theirs/usr/sbin/tlshd"
chmod 755 "$root/theirs/usr/sbin/tlshd"
cat >"$root/theirs/DEBIAN/control" <<-END
	Package: ktls-utils
	Version: 1.0.0-1
	Architecture: $(dpkg --print-architecture)
	Maintainer: Nobody <nobody@example.org>
	Depends: libc6 (>= 2.34), libglib2.0-0t64 (>= 2.12.0), libgnutls30t64 (>= 3.8.1), libnl-3-200 (>= 3.2.27)
	Description: a toy
END
must dpkg-deb --root-owner-group -b "$root/theirs" "$root/ktls-utils_1.0.0-1.deb"
cat >"$root/bin/apt-get" <<-END
	#!/bin/bash
	case "\$*" in
	*indextargets*) printf '%s\n' 'http://one.example/debian $codename' 'http://two.example/security $codename-security' ;;
	*" update") echo "\$*" >"$root/said"; cp "\$(sed 's/.*SourceList=\([^ ]*\).*/\1/' <<<"\$*")" "$root/sources.list" ;;
	*" download ktls-utils") [ -e "$root/ktls-utils_1.0.0-1.deb" ] && cp "$root/ktls-utils_1.0.0-1.deb" . || { echo 'E: 404'; exit 100; } ;;
	*) exit 1 ;;
	esac
END
chmod +x "$root/bin/apt-get"
make_it() { PATH=$root/bin:$PATH TMPDIR=$root/tmp "$FLT_TOP/tools/build/tlshd" "$root/out"; }
mkdir -p "$root/tmp" "$root/out"
touch "$root/out/ktls-utils_0.9-1~flotilla12_amd64.deb" "$root/out/flotilla.deb"

deb=$(make_it)
claim "the package is made" $? "$deb"
equal "and named, in place of an older one" "$deb flotilla.deb" "$root/out/$(cd "$root/out" && echo ktls-utils_*) flotilla.deb"
equal "it asks for Debian 12's libraries" \
	"libc6 (>= 2.34), libglib2.0-0 (>= 2.12.0), libgnutls30 (>= 3.7.3), libnl-3-200 (>= 3.2.27)" "$(dpkg-deb -f "$deb" Depends)"
check "Debian 13's own package takes its place" dpkg --compare-versions "$(dpkg-deb -f "$deb" Version)" lt 1.0.0-1
equal "nothing else is another" "$(dpkg-deb --fsys-tarfile "$root/ktls-utils_1.0.0-1.deb" | tar -xO ./usr/sbin/tlshd | sha256sum)" \
	"$(dpkg-deb --fsys-tarfile "$deb" | tar -xO ./usr/sbin/tlshd | sha256sum)"
equal "what it has is root's" "root/root" "$(dpkg-deb -c "$deb" | awk '{ print $2 }' | sort -u)"
equal "it is looked for where the machine's packages come from, and must be Debian's" \
	"http://one.example/debian trixie http://two.example/security trixie-security" \
	"$(sed -n 's/^deb \[signed-by=[^]]*debian-archive-keyring.gpg\] \(.*\) main$/\1/p' "$root/sources.list" | paste -sd' ')"
check "the machine's own lists stay as they are" grep -q "Dir::State::Lists=$root/tmp" "$root/said"

rm "$root/ktls-utils_1.0.0-1.deb"
said=$(make_it 2>&1)
claim "where there is none, it fails" $(($? != 1)) "$said"
equal "and says why" "tlshd: no ktls-utils: E: 404" "$said"
equal "what was made before stays" "$deb" "$(echo "$root"/out/ktls-utils_*)"
equal "nothing is left behind" "" "$(ls "$root/tmp")"
finish
