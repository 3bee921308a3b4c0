# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The exporter of card_poweroff: a loop device over a file, whose volatile cache is this machine's memory.
. "$FLT_TOP/tools/testing/lib.sh"

must modprobe -a virtio_blk ext4 loop card
# Nothing is written back but what is flushed.
must sysctl -qw vm.dirty_writeback_centisecs=0
must mkdir -p /tmp/store
must mount /dev/vda /tmp/store
[ -e /tmp/store/disk ] || must dd if=/dev/zero of=/tmp/store/disk bs=1M count=8 conv=fsync status=none
device=$(losetup --find --show /tmp/store/disk) || bail "no loop device"
must flotilla local set name exporter address 10.77.0.1
must flotilla node add client address 10.77.0.2
must flotilla card export data device "$device" nodes client write
announce "exported.$FLT_BOOT"
await end 1000
