# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# All but the front-end: its standby, two back-ends and the client, each a namespace of this guest.
. "$FLT_TOP/tools/testing/e2e/reload.sh"

root=/tmp/e2e
mkdir -p $root
for name in small middle large; do
	body $name >$root/$name
done
load handoff
lan fe2:10.77.0.3 be1:10.77.0.11 be2:10.77.0.12 client:10.77.0.100
# The segment goes on in the other guest.
must ip link set eth0 netns _switch
must _switch ip link set eth0 master br0 up

for i in 1 2; do
	holds be$i $SERVICE
	must be$i flotilla local set name be$i address 10.77.0.1$i insecure on
	must be$i flotilla service add "$SERVICE:80"
	must be$i flotilla node add fe address 10.77.0.1 role frontend
	must be$i flotilla node add fe2 address 10.77.0.3 role frontend
	printf 'listen %s:80\nroot %s\nheader X-Node be%s\n' $SERVICE $root $i >$root.be$i.conf
	ip netns exec be$i flash -c $root.be$i.conf >$root.be$i.log 2>&1 &
	wait_for 60 listening be$i 80 || bail "flash does not listen: $(cat $root.be$i.log)"
done
must fe2 sysctl -qw net.ipv4.ip_nonlocal_bind=1 net.flotilla.handoff_timeout_ms=10000
must fe2 flotilla local set name fe2 address 10.77.0.3 insecure on
must fe2 flotilla service add "$SERVICE:80"
for i in 1 2; do
	must fe2 flotilla node add be$i address 10.77.0.1$i
done
announce rest
await fe 300 || bail "the front-end is not there"
all_up() {
	local i
	for i in 1 2; do
		[ "$(fe2 flotilla -t node show "be$i" | cut -f5)" = up ] || return 1
		[ "$("be$i" flotilla -t node show | cut -f5 | sort -u)" = up ] || return 1
	done
}
wait_for 90 all_up || bail "no links"
dispatch ip netns exec fe2
watch_over 100 ip netns exec fe2
standby() { grep -q BACKUP /tmp/keepalived.log; }
wait_for 60 standby || bail "keepalived: $(cat /tmp/keepalived.log)"

ip netns exec client python3 "$FLT_TOP/tools/testing/e2e/reload_client.py" $SERVICE $CONNECTIONS $root/asked \
	>$root/client.log 2>&1 &
client=$!
# Each connection has had an answer, more of them than when it was last looked.
asked() { [ "$(cat "$root/asked" 2>/dev/null || echo 0)" -gt "$1" ]; }
goes_on() { wait_for 60 asked $(($(cat "$root/asked") + 2)); }
wait_for 120 asked 2 || bail "no answers: $(cat $root/client.log)"
announce asked
taken() { [ "$(fe2 flotilla -t stats show name TakeoverTaken | cut -f3)" -ge "$1" ]; }
# round SUFFIX TAKEN: the front-end goes and comes; by then the standby has taken over so many in all.
round() {
	wait_for 120 taken "$2"
	claim "the standby takes over each connection$1" $? "$(fe2 flotilla stats show nonzero)"
	check "and each gets answers" goes_on
	announce "taken$1"
	await "unloaded$1" 120 || bail "the front-end's module is not unloaded"
	check "without the front-end's module, too" goes_on
	announce "without$1"
	await "home$1" 200 || bail "the address did not come home"
	refuse "the standby has the address no more" has_address ip netns exec fe2
	check "back home each gets answers" goes_on
}
round "" $CONNECTIONS
announce athome
round 2 $((2 * CONNECTIONS))
touch $root/asked.stop
wait $client
claim "no connection was reset, no byte was wrong" $? "$(cat $root/client.log)"
cat $root/client.log
equal "the standby has reset nobody" 0 "$(fe2 flotilla -t stats show name ForwardResets | cut -f3)"
kill $keepalived $lardd
finish
