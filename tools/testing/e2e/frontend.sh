# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The front-end of the end-to-end test.
. "$FLT_TOP/tools/testing/e2e/common.sh"

must modprobe handoff
# A machine that is busy with other guests may take its time.
must sysctl -qw net.flotilla.handoff_timeout_ms=10000
must ip address add $SERVICE/32 dev eth0
# A network of these guests only.
must flotilla local set name fe address "$(address_of fe)" insecure on
for name in be1 be2; do
	await $name 150 || bail "$name is not there"
	must flotilla node add $name address "$(address_of $name)"
done
for name in be1 be2; do
	wait_for 90 is_up $name || bail "no link to $name: $(flotilla node show)"
done
must flotilla policy set wrr
printf 'listen %s:80\n' $SERVICE >/tmp/lardd.conf
lardd -f -c /tmp/lardd.conf 2>/tmp/lardd.log &
wait_for 90 flotilla probe lardd || bail "lardd does not answer: $(cat /tmp/lardd.log)"

sent() {
	cat /sys/class/net/eth0/statistics/tx_bytes
}

before=$(sent)
announce fe
await downloading 150
check "fe: forwards a connection that is under way" \
	wait_for 60 sh -c 'flotilla -t conn show | grep -q FORWARD'
# The entry comes first, so that no packet finds neither.
check "fe: and has no socket of it" wait_for 60 sh -c '! ss -Htn state established "sport = :80" | grep -q .'
announce seen
await end 300
sent=$(($(sent) - before))
bytes=$(cat "$FLT_RESULTS/bytes")
[ "$sent" -lt $((bytes / 4)) ]
claim "fe: the answers went around it" $? "it sent $sent bytes, the client got $bytes"
echo "# it sent $sent bytes in all, the client got $bytes"
connections=$(cat "$FLT_RESULTS/connections")
all_done() { [ "$(counter HandoffDone)" = "$connections" ]; }
wait_for 60 all_done
equal "fe: each connection was handed off" "$connections" "$(counter HandoffDone)"
equal "fe: and none refused" "" "$(flotilla -t stats show nonzero name 'HandoffRefused*')"
check "fe: an explanation is there" flotilla explain http://$SERVICE/small
timestamps_are_right
finish
