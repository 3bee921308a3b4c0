# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What both guests of the test of a front-end that is loaded anew have in common.
. "$FLT_TOP/tools/testing/e2e/common.sh"

# shellcheck disable=SC2034 # the roles use it
CONNECTIONS=16

# A COMMAND stands before what is to be run: ip netns exec NAMESPACE, or env.

# watch_over PRIORITY COMMAND...: keepalived, with the file that is shipped.
watch_over() {
	local priority=$1 place
	shift
	place=$(mktemp -d)
	sed -e "s/10\.0\.0\.80/$SERVICE/g" -e "s/priority 150/priority $priority/" -e '/nopreempt/d' \
		-e "s,/usr/bin/flotilla,$(command -v flotilla),g" \
		"$FLT_TOP/tools/flotilla/examples/keepalived.conf" >"$place/conf"
	"$@" keepalived --dont-fork --log-console --vrrp -f "$place/conf" -p "$place/pid" -r "$place/vrrp.pid" \
		>>"/tmp/keepalived.log" 2>&1 &
	# shellcheck disable=SC2034 # the roles use it
	keepalived=$!
}

# dispatch COMMAND...: lardd.
dispatch() {
	printf 'listen %s:80\n' $SERVICE >/tmp/lardd.conf
	"$@" lardd -f -c /tmp/lardd.conf 2>>/tmp/lardd.log &
	# shellcheck disable=SC2034 # the roles use it
	lardd=$!
}

# has_address COMMAND...: the service's.
has_address() {
	"$@" ip -4 address show dev eth0 | grep -q " $SERVICE/"
}
