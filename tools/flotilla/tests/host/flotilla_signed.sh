#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 60
# Where only signed modules load, `flotilla probe` says whether DKMS's key is enrolled and what to type when it is not.
. "$FLT_TOP/tools/testing/lib.sh"
need unshare flotilla
unshare -rm true || bail "no mount namespaces here"

# probed SETUP: what it says of a machine with /proc, /sys and /var/lib of its own making. $keys: what firmware trusts.
probed() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare -rm bash -c '
		for dir in /proc /sys /var/lib; do mount -t tmpfs none $dir || exit; done
		touch /proc/modules
		mkdir -p /sys/kernel/security /sys/firmware/efi/efivars /var/lib/dkms
		echo "none [integrity] confidentiality" >/sys/kernel/security/lockdown
		keys=/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23
		eval "$1"
		flotilla -t probe loading
		echo $?
	' bash "$1" 2>&1 | cut -f2- | paste -sd'|'
}

key='printf "\x30\x82key\0of this machine" >/var/lib/dkms/mok.pub'
first="only signed modules load here"
equal "where nothing is locked there is nothing to sign" "yes	unsigned modules may be loaded|0" \
	"$(probed 'echo "[none] integrity confidentiality" >/sys/kernel/security/lockdown')"
equal "without DKMS there is no key" "unknown	$first, and DKMS has no key yet (/var/lib/dkms/mok.pub): \
install flotilla-dkms, or sign with a key that is enrolled|1" "$(probed true)"
missing="unknown	$first, and DKMS's key is not enrolled: mokutil --import /var/lib/dkms/mok.pub, then boot and confirm it|1"
equal "a key that is not enrolled is named, with the command" "$missing" "$(probed "$key")"
equal "as where others are" "$missing" "$(probed "$key; printf '\x30\x82key\0of that machine' >\$keys")"
equal "one that is enrolled is enough" "yes	$first; DKMS's key is enrolled|0" \
	"$(probed "$key; (printf 'head\0others'; cat /var/lib/dkms/mok.pub; echo more) >\$keys")"
equal "so also where the kernel asks for signatures by itself" "$missing" \
	"$(probed "$key; rm -r /sys/kernel/security; mkdir -p /sys/module/module/parameters; echo Y >/sys/module/module/parameters/sig_enforce")"
finish
