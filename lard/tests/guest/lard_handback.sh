#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# long: both a minute, and on the debug kernel it takes eight minutes
# timeout: 600
# Kept connections that come back: client, front-end and two back-ends in namespaces; flash gives each
# connection back when its next request is there, and lardd sends it where that request belongs.
# shellcheck disable=SC2317,SC2154 # functions called by name; namespaces are functions
. "$FLT_TOP/tools/testing/lib.sh"

VIP=10.0.0.200
TARGETS=12
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"

need curl wrk flash flotilla lardd
load handoff
lan client:10.0.0.100 fe:10.0.0.1 be1:10.0.0.2 be2:10.0.0.3
must fe ip addr add $VIP/24 dev eth0
must fe flotilla local set name fe address 10.0.0.1 insecure on
must be1 flotilla local set name be1 address 10.0.0.2 insecure on
must be2 flotilla local set name be2 address 10.0.0.3 insecure on
for ns in fe be1 be2; do
	must "$ns" flotilla service add $VIP:80
done

# A back-end holds the VIP without saying so, and serves it; its files say its name.
backend() {
	local ns=$1 i
	holds "$ns" $VIP
	must "$ns" flotilla node add fe address 10.0.0.1 role frontend
	must fe flotilla node add "$ns" address "$2"
	mkdir -p "$DIR/$ns"
	for i in $(seq $TARGETS); do echo "$ns" >"$DIR/$ns/t$i"; done
	"$ns" flash --listen 80 --root "$DIR/$ns" --hand-back fe --status /status >"$DIR/$ns.log" 2>&1 &
	wait_for 30 listening "$ns" 80 || bail "flash does not listen in $ns: $(cat "$DIR/$ns.log")"
}

link_up() { "$1" flotilla -j node show "$2" | grep -q '"state": *"up"'; }

backend be1 10.0.0.2
backend be2 10.0.0.3
for ns in be1 be2; do
	wait_for 30 link_up fe $ns || bail "the link does not come up: $(fe flotilla node show)"
	# A server gives back as soon as its own end is up, which may be some moments later.
	wait_for 30 link_up $ns fe || bail "the link does not come up in $ns: $($ns flotilla node show)"
done
for ns in fe be1 be2; do
	must "$ns" sysctl -qw net.flotilla.handoff_timeout_ms=$((5000 * slow))
done

printf 'listen %s:80\ncontrol %s\n' $VIP "$DIR/lardd.sock" >"$DIR/lardd.conf"
ip netns exec fe lardd -c "$DIR/lardd.conf" --foreground 2>"$DIR/lardd.log" &
LARDD=$!
ask() { fe python3 "$FLT_TOP/lard/tests/lib/ask.py" "$DIR/lardd.sock" "$@"; }
answers() { [ "$(ask '{"cmd":"status"}' nodes)" = "$1" ]; }
load_is() { [ "$(ask '{"cmd":"status"}' outstanding)" = "$1" ]; }
handed_off() { ask '{"cmd":"stats"}' counters LardHandedOff; }
# Of both servers: handed back, and kept though they should have been.
counts() {
	for ns in be1 be2; do "$ns" curl -s -m 60 http://127.0.0.1/status; done |
		awk '/"handed_back"/ { back += $2 } /"handback_refused"/ { kept += $2 } END { print back + 0, kept + 0 }'
}
refusals() {
	for ns in fe be1 be2; do "$ns" flotilla stats; done | grep -E 'HandoffRefused[A-Za-z]* +[1-9]' | tr -s ' \n' ' '
}
wait_for 30 answers 2 || bail "lardd does not see two nodes: $(cat "$DIR/lardd.log")"
echo lb | fe tee /sys/class/flotilla/dispatch/policy >/dev/null

# A server may count what it gave back when the next one has answered.
all_counted() {
	now=$(counts)
	kept=$((${now#* } - ${was#* })) back=$((${now% *} - ${was% *}))
	[ $((kept + back)) -ge $((TARGETS - 1)) ]
}
# The answer can be there before lardd has read that the node took the connection.
all_handed_off() { [ $(($(handed_off) - before)) = $((TARGETS - kept)) ]; }
urls=$(for i in $(seq $TARGETS); do echo "http://$VIP/t$i"; done)
# What cannot go for the moment is served where it is, and counted as kept; the client sees no difference. Each of
# ROUNDS connections is judged; few may stay.
ROUNDS=5
now=$(counts)
opened=0 stayed=0 came_back=0 elsewhere=0 off=0
ask "$(for url in $urls; do echo '{"cmd":"explain","url":"'"$url"'"}'; done)" node >"$DIR/expected"
for _ in $(seq $ROUNDS); do
	before=$(handed_off) was=$now
	# shellcheck disable=SC2086 # a list of words
	client curl -s -m $((60 * slow)) -w 'connects %{num_connects}\n' $urls >"$DIR/answers"
	wait_for 30 all_counted
	wait_for 30 all_handed_off || off=$((off + 1))
	grep '^be[12]$' "$DIR/answers" >>"$DIR/nodes"
	others=$(grep '^be' "$DIR/answers" | paste -d' ' - "$DIR/expected" | awk '$1 != $2' | wc -l)
	[ "$others" -le "$kept" ] || elsewhere=$((elsewhere + 1))
	opened=$((opened + $(awk '/^connects/ { sum += $2 } END { print sum + 0 }' "$DIR/answers")))
	stayed=$((stayed + kept)) came_back=$((came_back + back))
	[ "$kept" = 0 ] || echo "# $kept stayed, $others of $TARGETS answered elsewhere; refusals in all: $(refusals)"
done
equal "each of $ROUNDS times $TARGETS requests is answered by a back-end" $((ROUNDS * TARGETS)) "$(wc -l <"$DIR/nodes")"
equal "over one connection each time" $ROUNDS $opened
equal "by the node that the policy names, unless the connection could not go" 0 $elsewhere
equal "both nodes were among them" 2 "$(sort -u "$DIR/nodes" | wc -l)"
equal "all but the first of each came back or stayed" $((ROUNDS * (TARGETS - 1))) $((came_back + stayed))
claim "$stayed stayed, at most a tenth" $((stayed * 10 > ROUNDS * TARGETS))
equal "each that came back was a handoff" 0 $off
check "no load is left" wait_for 30 load_is 0

echo wrr | fe tee /sys/class/flotilla/dispatch/policy >/dev/null
client wrk -t1 -c8 -d2s --timeout $((30 * slow)) "http://$VIP/t1" >"$DIR/wrk"
echo "# $(grep 'requests in' "$DIR/wrk"); refusals in all: $(refusals)"
check "connections that go back and forth under load lose nothing" \
	bash -c "grep -q 'requests in' '$DIR/wrk' && ! grep -E 'Socket errors|Non-2xx' '$DIR/wrk'"
check "and leave no load" wait_for 30 load_is 0

kill $LARDD
wait $LARDD
equal "lardd ends cleanly" 0 $?
finish
