# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The front-end whose lardd and handoff.ko are stopped and started again, as an upgrade does.
. "$FLT_TOP/tools/testing/e2e/reload.sh"

# What handoff.ko has forgotten when it is loaded anew.
load_handoff() {
	must modprobe handoff
	must sysctl -qw net.flotilla.handoff_timeout_ms=10000
}

# And flotilla.ko.
list_nodes() {
	local i
	# A network of these guests only.
	must flotilla local set name fe address 10.77.0.1 insecure on
	must flotilla service add "$SERVICE:80"
	for i in 1 2; do
		must flotilla node add be$i address 10.77.0.1$i
	done
}

links() {
	local i
	for i in 1 2; do
		wait_for 90 is_up be$i || bail "no link to be$i: $(flotilla node show)"
	done
}

work() {
	dispatch env
	wait_for 90 flotilla probe lardd || bail "lardd does not answer: $(cat /tmp/lardd.log)"
	watch_over 150 env
	check "fe: keepalived has the address" wait_for 60 has_address env
}

taken() {
	[ "$(counter TakeoverTaken)" -ge "$CONNECTIONS" ]
}

load_handoff
must sysctl -qw net.ipv4.ip_nonlocal_bind=1
list_nodes
await rest 300 || bail "the other guest is not there"
links
work
announce fe
await asked 200 || bail "the client is not there"
forwards() { [ "$(flotilla -t conn show | grep -c FORWARD)" = "$CONNECTIONS" ]; }
check "fe: forwards each connection" wait_for 60 forwards
refuse "fe: handoff.ko stays while lardd has it" rmmod handoff

# As takeover.md has it.
kill $keepalived
wait $keepalived
check "fe: the address is gone" wait_for 30 eval '! has_address env'
await taken 120 || bail "the standby has not taken them over"
kill $lardd
wait $lardd
check "fe: handoff.ko is unloaded" rmmod handoff
announce unloaded
await without 120 || bail "no request is answered without it"
load_handoff
work
check "fe: the connections come home" wait_for 60 taken
announce home

# Once more, with all of it.
await athome 200 || bail "no request is answered at home"
kill $keepalived
wait $keepalived
await taken2 120 || bail "the standby has not taken them over again"
kill $lardd
wait $lardd
check "fe: flotilla.ko is unloaded, too" modprobe -r handoff flotilla
announce unloaded2
await without2 120 || bail "no request is answered without both"
load_handoff
list_nodes
links
work
check "fe: the connections come home again" wait_for 60 taken
announce home2
await end 450
equal "fe: it has reset nobody" 0 "$(counter ForwardResets)"
kill $keepalived $lardd
timestamps_are_right
finish
