# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# What a guest needs for TLS; $state is set.

# AES by the processor's own instructions is loaded by udev, elsewhere.
secured() {
	modprobe -a aesni_intel tls
	[ ! -s "$state/key" ] || return 0
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=vip \
		-keyout "$state/key" -out "$state/chain" 2>/dev/null
	chmod 600 "$state/key"
	cat "$state/chain" "$state/key" >"$state/both"
}
