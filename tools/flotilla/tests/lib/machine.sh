#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# machine.sh NAME DIRECTORY UNIT... - process 1 of a machine in namespaces: systemd, with what is installed here and
# with these units enabled. /etc and /var are as here, and what DIRECTORY/etc and DIRECTORY/var have; /run is empty.
set -e
name=$1 directory=$2
shift 2
mount --make-rprivate /
mount -t proc proc /proc
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for top in etc var; do
	mkdir -p "$directory/$top" "$directory/.$top"
	mount -t overlay overlay -o "lowerdir=/$top,upperdir=$directory/$top,workdir=$directory/.$top" "/$top"
done
mount -t tmpfs tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
hostname "$name"
rm -f /etc/systemd/system/{multi-user,sysinit,timers,getty,sockets}.target.wants/* /etc/machine-id /var/lib/dbus/machine-id
systemd-machine-id-setup >/dev/null
# There is nobody to log in, and the guest has its devices.
systemctl -q mask getty.target systemd-logind.service dbus.service dbus.socket systemd-udevd.service \
	systemd-udev-trigger.service systemd-binfmt.service
systemctl -q enable "$@"
export container=flotilla
exec /lib/systemd/systemd --system --log-target=console --unit=multi-user.target --show-status=0
