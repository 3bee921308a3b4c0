#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes three minutes there
# timeout: 400
# shellcheck disable=SC2317 # functions that other functions call by name
# The command line against the real module, in two namespaces of one kernel.
. "$FLT_TOP/tools/testing/lib.sh"
need flotilla python3 setpriv
load flotilla
lan fe:10.0.0.1 be:10.0.0.2
namespace empty
# What the monitor tells is exact: no link may be lost because this machine slept for three seconds.
patient() { echo 20000 | "$1" tee /sys/class/flotilla/links/heartbeat_ms; }
must patient fe
must patient be

# says NAME SENTENCE COMMAND...: it fails with status 1 and this sentence.
says() {
	local name=$1 sentence=$2 seen status
	shift 2
	seen=$("$@" 2>&1 >/dev/null)
	status=$?
	[ $status = 1 ] && [ "$seen" = "flotilla: $sentence" ]
	claim "$name" $? "status $status: $seen"
}

# field NAMESPACE NODE NUMBER: of the row with tabs.
field() {
	"$1" flotilla -t node show "$2" | cut -f"$3"
}

# member NAMESPACE ARGUMENT... EXPRESSION: of the JSON answer d, as Python says it.
member() {
	local ns=$1 expression=${*: -1}
	shift
	"$ns" flotilla -j "${@:1:$#-1}" | python3 -c "import json, sys
d = json.load(sys.stdin)
print($expression)"
}

is_up() {
	[ "$(field "$1" "$2" 5)" = up ]
}

# group_has_member NAMESPACE: somebody listens to a generic netlink (16) multicast group.
group_has_member() {
	# shellcheck disable=SC2016 # the dollars are awk's
	"$1" awk '$2 == 16 && $4 != "00000000" { found = 1 } END { exit !found }' /proc/net/netlink
}

# This node and its peers.
says "a node without name says so" \
	'cannot show this node: it has no name and address yet; try "flotilla local set help"' \
	fe flotilla local
check "this node gets its name and address" fe flotilla local set name fe address 10.0.0.1
equal "this node is shown" $'fe\t10.0.0.1\t7471\toff' "$(fe flotilla -t local show)"
refuse "an address that is not here is refused" fe flotilla local set address 10.9.9.9
equal "and changes nothing" $'fe\t10.0.0.1\t7471\toff' "$(fe flotilla -t local show)"

events=$(mktemp)
at_exit rm -f "$events"
ip netns exec fe flotilla -j monitor >"$events" &
at_exit kill $!
# What happens before the monitor listens would be missed.
wait_for 30 group_has_member fe
check "a peer is added" fe flotilla node add be address 10.0.0.2 weight 50
refuse "a second one of that name is refused" fe flotilla node add be address 10.0.0.3
equal "it is shown with its defaults" $'be\t10.0.0.2\t7471\tactive\tbackend\t50\tdirect\tnone' \
	"$(fe flotilla -t node show be | cut -f2,3,4,6,7,8,10,12)"
check "the peer gets its table from a batch" be flotilla -b - <<-END
	local set name be address 10.0.0.2
	node add fe address 10.0.0.1 role frontend   # gives, is never given
END
wait_for 30 is_up fe be
claim "the link comes up" $? "$(fe flotilla node show)"
wait_for 30 is_up be fe
claim "at both ends" $?
equal "what it knows is shown" "sections,sendqueue,claim,tls,takeover,relocate,notify,redirect,report,large,cache,halfclosed,ooo sections,sendqueue,claim,tls,takeover,relocate,notify,redirect,report,large,cache,halfclosed,ooo" "$(field fe be 18) $(member fe node show be 'd[0]["features"]')"
check "a node is changed" fe flotilla node set be weight 7 admin drain
equal "and shown so in JSON" "7 drain up" "$(member fe node show be \
	'f"{d[0]['\''weight'\'']} {d[0]['\''admin'\'']} {d[0]['\''state'\'']}"')"
wait_for 30 grep -q node-changed "$events"
equal "the monitor told all of it in order" "node-added node-up node-changed" \
	"$(python3 <"$events" -c 'import json, sys
names = (json.loads(line)["event"] for line in sys.stdin)
print(*(name for name in names if name.startswith("node")))')"
refuse "a monitor that waits in vain ends" empty flotilla monitor timeout 1
equal "an empty namespace has no nodes" "[]" "$(empty flotilla -j node show)"
says "a node that is not there is told" 'cannot show node nobody: there is no such node' \
	fe flotilla node show nobody
refuse "nor is it deleted" fe flotilla node del nobody
refuse "nor changed" fe flotilla node set nobody weight 1
says "without the capability a change is refused" \
	'cannot add node x: this needs CAP_NET_ADMIN in the network namespace' \
	fe setpriv --bounding-set=-net_admin --inh-caps=-net_admin flotilla node add x address 10.0.0.9
check "but nodes are shown" \
	fe setpriv --reuid=65534 --clear-groups --inh-caps=-all flotilla node show be

# Whom this node trusts, and for what.
equal "a link without authentication gives nothing" refused "$(member fe node show be 'd[0]["trust"]')"
check "probe finds that links must be authenticated" fe flotilla probe trust
check "insecure is switched on" fe flotilla local set insecure on
equal "node show names it for scripts" INSECURE "$(field fe be 17)"
equal "and for JSON" "INSECURE on" "$(member fe node show 'd[0]["trust"]') $(member fe local show 'd[0]["insecure"]')"
equal "and warns people" "flotilla: WARNING: INSECURE is on: this node gives and takes connections over links that nobody has authenticated" \
	"$(fe flotilla node show 2>&1 >/dev/null)"
refuse "probe finds it" fe flotilla probe trust
check "the kernel's log has it" sh -c 'dmesg | grep -q "node fe is INSECURE now"'
check "it is switched off" fe flotilla local set insecure off
equal "no service is listed at first" "[]" "$(fe flotilla -j service show)"
check "services are added" fe flotilla service add 10.0.0.80:80 10.0.0.81 '[fd00::80]:443' fd00::81
equal "and shown" "10.0.0.80 80,10.0.0.81 any,fd00::80 443,fd00::81 any" \
	"$(fe flotilla -t service show | tr '\t' ' ' | paste -sd,)"
says "one twice is refused" 'cannot add service 10.0.0.81: that service is listed' \
	fe flotilla service add 10.0.0.81
says "a loopback one is refused" 'cannot add service 127.0.0.1:80: a loopback address serves this machine only' \
	fe flotilla service add 127.0.0.1:80
check "services are deleted" fe flotilla service del 10.0.0.80:80 '[fd00::80]:443' fd00::81
says "one that is not there is told" 'cannot delete service 10.0.0.81:80: no such service is listed' \
	fe flotilla service del 10.0.0.81:80
equal "the others are left" "10.0.0.81 any" "$(fe flotilla -t service show | tr '\t' ' ')"
says "without the capability nothing is listed" \
	'cannot add service 10.0.0.9: this needs CAP_NET_ADMIN in the network namespace' \
	fe setpriv --bounding-set=-net_admin --inh-caps=-net_admin flotilla service add 10.0.0.9
says "nor insecure switched on" \
	'cannot set this node: this needs CAP_NET_ADMIN in the network namespace' \
	fe setpriv --bounding-set=-net_admin --inh-caps=-net_admin flotilla local set insecure on

# The key that nodes share.
key=$(mktemp -d)/key
at_exit rm -rf "${key%/*}"
if modprobe nvme-keyring 2>/dev/null; then
	check "a key is made and loaded" sh -c "flotilla auth key $key >$key.serial"
	equal "its file is for its owner only" 600 "$(stat -c %a "$key")"
	check "a link takes it by its serial number" \
		fe flotilla node add keyed address 10.0.0.5 auth psk key "$(cat "$key.serial")"
	was=$(cat "$key")
	check "it is loaded again" flotilla auth key "$key"
	equal "and stays what it was" "$was" "$(cat "$key")"
	check "that node goes" fe flotilla node del keyed
else
	skip "a key is made and loaded" "this kernel has no keys of type psk"
fi

# Policy.
equal "limits have the paper's defaults" "25 65 20" \
	"$(fe flotilla -t policy show t_low t_high replication_seconds | cut -f2 | xargs)"
check "another namespace has its own policy" be flotilla policy set lb
check "both limits rise in one command" fe flotilla policy set lard/r t_low 100 t_high 200
equal "and are shown as numbers" "['lard/r', 100, 200]" \
	"$(member fe policy show '[d["policy"], d["t_low"], d["t_high"]]')"
check "both fall in one command" fe flotilla policy set t_high 40 t_low 10
says "limits that cross are refused" \
	'cannot set the policy: t_low 40 is refused: t_low must be at least 2, t_high above it' \
	fe flotilla policy set wrr replication_seconds 5 t_low 40
equal "and what came before them is put back" "lard/r 10 40 20" \
	"$(fe flotilla -t policy show policy t_low t_high replication_seconds | cut -f2 | xargs)"
says "a policy that does not exist is refused" \
	'cannot set the policy: policy best is not one of wrr|lb|lard|lard/r|lc|chbl' \
	fe flotilla policy set best
check "the admission limit is set" fe flotilla policy set max_outstanding 12
equal "and shown" 12 "$(fe flotilla -t policy show max_outstanding | cut -f2)"
check "and is automatic again" fe flotilla policy set max_outstanding auto
equal "which nobody else has changed" lb \
	"$(be flotilla -t policy show policy | cut -f2)"

# Counters, connections, probe.
check "counters are shown" fe flotilla stats show room flotilla
equal "each counter once, in JSON" True \
	"$(member fe stats 'len(d) > 5 and len({(r["room"], r["name"]) for r in d}) == len(d)')"
judge() {
	PYTHONPATH=$FLT_TOP/tools/testing/lib python3 -c 'import sys, exposition
samples = exposition.read(sys.stdin.read())
assert exposition.value(samples, "flotilla_nodes") == 1
assert exposition.value(samples, "flotilla_node_up", node="be") == 1
assert exposition.value(samples, "flotilla_node_info", node="be", role="backend", admin="drain", auth="none") == 1'
}
fe flotilla stats --prometheus | judge
claim "counters and nodes are told to Prometheus" $?
printf 'GET /metrics HTTP/1.1\r\n\r\n' | fe flotilla stats --prometheus --http >"$events.http"
at_exit rm -f "$events.http"
equal "and by HTTP" "HTTP/1.1 200 OK" "$(head -1 "$events.http" | tr -d '\r')"
sed '1,/^\r$/d' "$events.http" | judge
claim "the same" $?
printf 'GET /metrics HTTP/1.1\r\n\r\n' |
	fe setpriv --reuid=65534 --clear-groups --inh-caps=-all flotilla stats --prometheus --http | grep -q '^flotilla_nodes 1$'
claim "by whoever it is run" $?
equal "there are no connections" 0 "$(fe flotilla conn show count)"
equal "of which there is a JSON table" "[]" "$(fe flotilla -j conn show)"
check "probe finds the module" fe flotilla probe flotilla dispatch netfilter
refuse "and that nobody dispatches here" fe flotilla probe lardd

check "a node is deleted" fe flotilla node del be
equal "and is gone" "[]" "$(fe flotilla -j node show)"
finish
