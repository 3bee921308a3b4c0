#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# long: stock two minutes
# kernel: stock
# shellcheck disable=SC2317,SC2154 # functions called by name; namespaces are functions
# The kernel's table follows a file and an etcd in which nodes live and die; what others have added stays.
. "$FLT_TOP/tools/testing/lib.sh"

DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
need flotilla flotilla-follow etcd
load flotilla
lan fe:10.0.0.1 be:10.0.0.2
must fe flotilla local set name fe address 10.0.0.1
must be flotilla local set name be address 10.0.0.2

nodes() {
	fe flotilla -t node show | cut -f2,3,8 | tr '\t' ' ' | sort | paste -sd,
}

nodes_are() {
	[ "$(nodes)" = "$1" ]
}

# follows NAME TABLE
follows() {
	wait_for 40 nodes_are "$2"
	claim "$1" $? "expected '$2', got '$(nodes)', said $(tail -n 5 "$DIR"/*.log)"
}

# put TEXT: by a rename.
put() {
	printf '%s\n' "$1" >"$DIR/new" && mv "$DIR/new" "$DIR/nodes"
}

once() {
	fe flotilla-follow --once --state "$DIR/once" "file:$DIR/nodes" 2>&1
}

ids() {
	fe flotilla -t node show | cut -f1,2 | sort
}

# One reading.
fe flotilla node add old address 10.0.0.9 weight 7
put "node be address 10.0.0.2"
equal "a node comes" "flotilla-follow: + node be address 10.0.0.2" "$(once)"
before=$(ids)
equal "once" "" "$(once)"
equal "and is the same one" "$before" "$(ids)"
check "what is its own is known by its number" grep -qE "^be $(fe flotilla -t node show be | cut -f1) 10\.0\.0\.2 " "$DIR/once"
put "node be address 10.0.0.2"$'\n'"node old address 10.0.0.9 weight 9"$'\n'"node be2 address 10.0.0.3"
equal "who was added by hand stays as he was, the rest is done" \
	"flotilla-follow: + node be2 address 10.0.0.3,flotilla-follow: node old was not added for this source: it stays as it is (--adopt)" \
	"$(once | sort | paste -sd,)"
equal "really" "be 10.0.0.2 100,be2 10.0.0.3 100,old 10.0.0.9 7" "$(nodes)"
put "node be address 10.0.0.2"$'\n'"node be2 address 10.0.0.3"
fe flotilla node set be admin drain
equal "what it does not say stays" "" "$(once)"
equal "really so" drain "$(fe flotilla -t node show be | cut -f6)"
fe flotilla node set be admin active
fe flotilla node del be2
fe flotilla node add be2 address 10.0.0.3
put "node be address 10.0.0.2"
equal "a node that somebody has deleted and added again is theirs" "" "$(once)"
equal "as before" "be 10.0.0.2 100,be2 10.0.0.3 100,old 10.0.0.9 7" "$(nodes)"
put "node be address 10.0.0.2 port 9000"
equal "a move is one" 1 "$(once | grep -c 'removed and added again')"
put "node x address 10.0.0.4"
once >/dev/null
equal "and stays its own" "be2 10.0.0.3 100,old 10.0.0.9 7,x 10.0.0.4 100" "$(nodes)"
put "node x address 10.0.0.4"$'\n'"node y address 10.0.0.300"
equal "a wrong one changes nothing" 2 "$(once >/dev/null; echo $?)"
put "# none"
equal "nor does an empty one" 2 "$(once >/dev/null; echo $?)"
equal "nothing" "be2 10.0.0.3 100,old 10.0.0.9 7,x 10.0.0.4 100" "$(nodes)"
equal "without the capability it is told so" "flotilla-follow: cannot change the nodes: this needs CAP_NET_ADMIN in the network namespace" \
	"$(put "node z address 10.0.0.5"; fe setpriv --bounding-set=-net_admin --inh-caps=-net_admin \
		flotilla-follow --once --state "$DIR/once" "file:$DIR/nodes" 2>&1)"
equal "and it stays with what it had" 1 "$(put "node x address 10.0.0.4"; once >/dev/null; grep -c '^x ' "$DIR/once")"

# A file of apply need not have what a source has.
ln -s "$DIR/once" /run/flotilla/follow-once
cp "$DIR/once" /run/flotilla/follow-test
at_exit "rm -f /run/flotilla/follow-once /run/flotilla/follow-test"
printf 'local name fe address 10.0.0.1\n' >"$DIR/file"
refuse "a link in the place of what says whose nodes are is not followed" fe flotilla apply --dry-run "$DIR/file"
rm /run/flotilla/follow-once
equal "apply leaves the source's nodes alone" "- node be2 address 10.0.0.3,- node old address 10.0.0.9 weight 7" \
	"$(fe flotilla apply --dry-run "$DIR/file" | sort | paste -sd,)"
echo "node other address 10.0.0.4" >>"$DIR/file"
check "unless the file speaks of them" grep -q '^- node x ' <<<"$(fe flotilla apply --dry-run "$DIR/file")"
rm /run/flotilla/follow-test

# An apply under way is waited for.
(exec 9<>/run/flotilla/apply.lock && flock 9 && touch "$DIR/held" && exec sleep 3) &
wait_for 10 test -e "$DIR/held"
put "node x address 10.0.0.4 weight 8"
begin=$SECONDS
equal "an apply under way is waited for" "flotilla-follow: ~ node x weight 100 -> 8" "$(once)"
[ $((SECONDS - begin)) -ge 1 ]
claim "so it took longer" $? $((SECONDS - begin))

# On and on.
ip netns exec fe flotilla-follow --state "$DIR/once" "file:$DIR/nodes" 2>"$DIR/file.log" &
follower=$!
at_exit "kill $follower 2>/dev/null"
put "node x address 10.0.0.4 weight 5"
follows "it follows" "be2 10.0.0.3 100,old 10.0.0.9 7,x 10.0.0.4 5"
equal "with one capability and no way to another" "CapPrm: 0000000000001000,CapEff: 0000000000001000,CapBnd: 0000000000001000,NoNewPrivs: 1" \
	"$(grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/$follower/status | tr '\t' ' ' | paste -sd,)"
equal "alone" "flotilla-follow: cannot follow file:$DIR/nodes: another flotilla-follow follows it" "$(once)"
put "node x address 10.0.0.4 weight 6"
follows "it goes on" "be2 10.0.0.3 100,old 10.0.0.9 7,x 10.0.0.4 6"
kill -9 $follower
wait $follower 2>/dev/null
put "node w address 10.0.0.7"
equal "who was killed has left what he had to the next" 2 "$(once | grep -cE '^flotilla-follow: [+-] ')"
fe flotilla node del w be2

# Nodes in etcd, each for as long as it lives.
url=http://10.0.0.1:2379
ip netns exec fe etcd --data-dir "$DIR/etcd" --listen-client-urls $url --advertise-client-urls $url \
	--listen-peer-urls http://10.0.0.1:2380 --initial-advertise-peer-urls http://10.0.0.1:2380 \
	--initial-cluster default=http://10.0.0.1:2380 >"$DIR/etcd.out" 2>&1 &
at_exit "kill $!"
wait_for 60 listening fe 2379 || bail "etcd does not listen: $(tail -n 3 "$DIR/etcd.out")"
ip netns exec fe flotilla-announce --lease 10 etcd:$url/web 2>"$DIR/announce-fe.log" &
at_exit "kill $!"
ip netns exec be flotilla-announce --lease 10 etcd:$url/web 2>"$DIR/announce-be.log" &
announcer=$!
at_exit "kill $announcer 2>/dev/null"
ip netns exec be flotilla-announce --lease 10 --name be2 --address 10.0.0.3 --set "weight 30" etcd:$url/web 2>"$DIR/announce-be2.log" &
other=$!
at_exit "kill $other"
ip netns exec fe flotilla-follow --every 600 --log json --state "$DIR/etcd.state" etcd:$url/web 2>"$DIR/follow.log" &
follower=$!
at_exit "kill $follower"
follows "nodes that announce themselves come" "be 10.0.0.2 100,be2 10.0.0.3 30,old 10.0.0.9 7"
before=$(ids)
kill -9 $announcer
follows "one that dies leaves when its lease is over" "be2 10.0.0.3 30,old 10.0.0.9 7"
ip netns exec be flotilla-announce --lease 10 etcd:$url/web 2>>"$DIR/announce-be.log" &
at_exit "kill $!"
follows "and comes again" "be 10.0.0.2 100,be2 10.0.0.3 30,old 10.0.0.9 7"
equal "who lived was the same node all the time" "$(grep be2 <<<"$before")" "$(ids | grep be2)"
fe flotilla -t node show be | grep -q be
kill -STOP $other
follows "one that hangs leaves, too" "be 10.0.0.2 100,old 10.0.0.9 7"
kill -CONT $other
follows "until it goes on" "be 10.0.0.2 100,be2 10.0.0.3 30,old 10.0.0.9 7"
check "each change is an object" python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$DIR/follow.log"
finish
