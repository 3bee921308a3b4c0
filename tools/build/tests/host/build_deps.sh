#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# `make deps` installs servers, and none of them runs, now or after the next boot. What was enabled before stays.
#
# The real script, update-rc.d and deb-systemd-helper, with an apt-get that does what a server's package does. /etc,
# /var/lib and /usr/sbin are a namespace's own.
. "$FLT_TOP/tools/testing/lib.sh"
need unshare deb-systemd-helper update-rc.d
unshare -rm true || bail "no mount namespaces here"

tree=$(mktemp -d)
at_exit rm -rf "$tree"
mkdir "$tree/bin"
cat >"$tree/bin/dpkg-query" <<-'end'
	#!/bin/sh
	[ "$4" = dwarves ] || echo installed
end
cat >"$tree/bin/apt-get" <<-'end'
	#!/bin/sh
	# As a package's script after installation: enabled, and started where policy-rc.d lets it.
	case " $* " in *" install "*) ;; *) exit 0 ;; esac
	server new
	server bare unit
	if /usr/sbin/policy-rc.d new start; then echo new >>/etc/started; fi
	[ ! -e /etc/breaks ]
end
cat >"$tree/bin/server" <<-'end'
	#!/bin/sh
	# server NAME [unit]: one with a unit and a script, or with a unit alone.
	export DPKG_MAINTSCRIPT_PACKAGE=$1
	printf '%s\n' '[Unit]' '[Service]' 'ExecStart=/bin/true' '[Install]' 'WantedBy=multi-user.target' >/etc/systemd/system/$1.service
	deb-systemd-helper --quiet enable $1.service
	[ -z "$2" ] || exit 0
	printf '%s\n' '#!/bin/sh' '### BEGIN INIT INFO' "# Provides: $1" '# Required-Start:' '# Required-Stop:' \
		'# Default-Start: 2 3 4 5' '# Default-Stop: 0 1 6' '### END INIT INFO' >/etc/init.d/$1
	chmod +x /etc/init.d/$1
	update-rc.d $1 defaults
end
chmod +x "$tree"/bin/*

# deps SETUP: what a boot would start, what was started and what stands in apt's way afterwards, by the real script.
deps() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare -rm bash -c '
		cp /usr/sbin/update-rc.d "$1/update-rc.d"
		for dir in /etc /var/lib /usr/sbin; do mount -t tmpfs none $dir || exit; done
		cp "$1/update-rc.d" /usr/sbin
		mkdir -p /etc/systemd/system /etc/init.d /etc/rc{0..6}.d /etc/rcS.d /var/lib/systemd
		printf "ID=debian\nVERSION_ID=13\n" >/etc/os-release
		PATH=$1/bin:/usr/sbin:$PATH
		server old && eval "$2" && "$3/tools/build/deps" node || echo "status $?"
		find /etc/systemd/system -path "*.wants/*" -printf "boot %f\n"
		find /etc/rc[2-5S].d -name "S*" -printf "boot %h/%f\n"
		[ ! -e /etc/started ] || sed "s/^/started /" /etc/started
		find /usr/sbin -name policy-rc.d -printf "stands %f\n"
	' bash "$tree" "$1" "$FLT_TOP" 2>"$tree/errors" | grep -v '^installing\|^updating' | sort
}

old=$(printf '%s\n' "boot /etc/rc"{2..5}".d/S01old" "boot old.service")
equal "what a package enables is disabled, what was enabled stays, nothing is started" "$old" "$(deps true)"
equal "and nothing is complained of" "" "$(grep ^deps: "$tree/errors")"
equal "as where installing fails" "$old"$'\nstatus 1' "$(deps 'touch /etc/breaks')"
finish
