#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# The probe: it tells what a kernel has from what it cannot tell, and refuses a kernel that it does not know.
. "$FLT_TOP/tools/testing/lib.sh"
need make gcc

kdir=$("$FLT_TOP/tools/build/kernel" kdir) || skip_all "there are no kernel headers"
root=$(mktemp -d)
at_exit rm -rf "$root"
probes=$root/tree/kmod/compat/probes config=$root/out/flt_compat_config.h
mkdir -p "$root/tree/tools/build"
cp "$FLT_TOP/tools/build/probe" "$root/tree/tools/build/"

# A tree with the probes that follow, and no others.
anew() {
	rm -rf "$root/out" "$probes"
	mkdir -p "$probes"
}

# asks NAME EXPRESSION [OPPOSITE] [EXPORTS]
asks() {
	cat >"$probes/$1.c" <<-END
		// SPDX-License-Identifier: GPL-2.0
		${4:+/* exports: $4 */}
		/* Is it $1? */
		#include <net/sock.h>
		int flt_probe(struct sock *sk);
		#ifndef FLT_PROBE_NOT
		int flt_probe(struct sock *sk) { return $2; }
		#else
		int flt_probe(struct sock *sk) { return $3; }
		#endif
	END
	[ -n "${3:-}" ] || sed -i '/^#/{/include/!d};/return ;/d' "$probes/$1.c"
}

probe() { "$root/tree/tools/build/probe" "$kdir" "$root/out"; }

anew
asks there 'sk->sk_family' 'sk->no_such_member'
asks gone 'sk->no_such_member' 'sk->sk_family'
asks exported 'sk->sk_family' '' 'tcp_close'
asks hidden 'sk->sk_family' '' 'tcp_close no_such_symbol'
check "a kernel that is known is probed" probe
check "what it has is defined" grep -qx '#define FLT_HAVE_THERE 1' "$config"
check "what it has not is not" grep -q 'FLT_HAVE_GONE is not set' "$config"
check "what it exports is defined" grep -qx '#define FLT_HAVE_EXPORTED 1' "$config"
check "what it does not export is not" grep -q 'FLT_HAVE_HIDDEN is not set' "$config"

anew
asks there 'sk->sk_family' 'sk->no_such_member'
asks neither 'sk->no_such_member' 'sk->nor_this_one'
asks either 'sk->sk_family' 'sk->sk_type'
asks changed 'sk->no_such_member' '' 'tcp_close'
said=$(probe 2>&1)
claim "a kernel that is not known is refused" $(($? != 1)) "$said"
check "with a sentence" grep -q 'is no kernel that Flotilla knows' <<<"$said"
check "that names what has neither form" grep -qx '  neither: Is it neither?' <<<"$said"
check "what both forms fit: it is not told apart" grep -qx '  either: Is it either?' <<<"$said"
check "what is exported and something else" grep -qx '  changed: Is it changed?' <<<"$said"
equal "and no more" 3 "$(grep -c '^  ' <<<"$said")"
check "nothing is left to build with" test ! -e "$config"
refuse "headers that compile nothing say so" "$root/tree/tools/build/probe" /nonexistent "$root/out"
finish
