#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 300
# shellcheck disable=SC2317 # functions that other functions call by name
# flotilla doctor: a front-end and a back-end that are well, then one thing wrong at a time. What is wrong is named,
# and where the mend is a command, running it cures it.
. "$FLT_TOP/tools/testing/lib.sh"
need flotilla python3 setpriv nft
load flotilla handoff nf_conntrack
lan fe:10.0.0.1 be1:10.0.0.11
namespace empty

# row NAMESPACE SUBJECT SENTENCE: what is wrong, as fields with tabs.
row() {
	"$1" flotilla -t doctor problems | awk -F'\t' -v s="$2" -v f="$3" '$2 == s && index($3, f) { print; n = 1 } END { exit !n }'
}

# finds FINDING NAMESPACE SUBJECT SENTENCE: it is found, and nothing worse is said than before.
finds() {
	local seen
	seen=$(row "$2" "$3" "$4") && [ "${seen%%$'\t'*}" = "$1" ]
	claim "$2 finds: $3: $4" $? "$("$2" flotilla doctor)"
}

# cures NAMESPACE SUBJECT SENTENCE: the command that it names.
cures() {
	local mend
	mend=$(row "$1" "$2" "$3" | cut -f4)
	[ -n "$mend" ] && [ "${mend:0:1}" != "#" ] && "$1" sh -c "$mend" >/dev/null && ! row "$1" "$2" "$3"
	claim "and what it says cures it: $mend" $? "$("$1" flotilla doctor)"
}

# well NAMESPACE: no fault.
well() {
	"$1" flotilla doctor problems
}

serve() {
	# Not by be1, so that its number is the server's.
	ip netns exec be1 python3 -c 'import socket, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
s = socket.socket(family)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 80))
s.listen()
time.sleep(3600)' "$1" &
	server=$!
	wait_for 60 listening be1 80 || bail "no server at $1"
}

stop() {
	kill $server
	wait $server 2>/dev/null
}

is_up() {
	[ "$(fe flotilla -t node show be1 | cut -f5)" = up ] && [ "$(be1 flotilla -t node show fe | cut -f5)" = up ]
}

# As the README has it, without authentication.
must fe ip address add 10.0.0.80/32 dev eth0
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0
must be1 ip address add 10.0.0.80/32 dev lo
must fe flotilla local set name fe address 10.0.0.1 insecure on
must fe flotilla node add be1 address 10.0.0.11
must be1 flotilla local set name be1 address 10.0.0.11 insecure on
must be1 flotilla service add 10.0.0.80:80
must be1 flotilla node add fe address 10.0.0.1 role frontend
serve 10.0.0.80
wait_for 30 is_up || bail "the link does not come up"

check "a front-end that is well has no fault" well fe
check "nor has a back-end" well be1
finds warning fe trust "INSECURE is on"

# Without what is never twice the same, and what only root sees: the packet filter, how large a packet may be.
same() { grep -v $'\tfirewall\t\|packets of\|its clock is\|its own doctor\|nobody has examined'; }
equal "JSON says the same" "$(be1 flotilla -t doctor | cut -f1-3 | same)" "$(be1 flotilla -j doctor | python3 -c 'import json, sys
for row in json.load(sys.stdin):
    print(row["finding"], row["subject"], row["found"], sep="\t")' | same)"
equal "nobody sees what root sees, but for what only root may look at" "$(be1 flotilla -t doctor | same)" \
	"$(be1 setpriv --reuid 65534 --clear-groups flotilla -t doctor 2>&1 | same)"

# What other nodes say. That it is heard takes a heartbeat and a second.
hears() { row "$1" "$2" "$3" >/dev/null; }
fine() { "$1" flotilla -t doctor | awk -F'\t' -v s="$2" -v f="$3" '$1 == "fine" && $2 == s && index($3, f) { n = 1 } END { exit !n }'; }
wait_for 30 hears fe "node be1" "its own doctor" || bail "fe does not hear what be1 has found"
finds warning fe "node be1" "found 0 faults and 1 warning: trust"
check "clocks are compared" fine fe "node be1" "its clock is"
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=0
be1 flotilla doctor >/dev/null
wait_for 30 hears fe "node be1" "1 fault and 1 warning" || bail "fe does not hear of a fault"
finds fault fe "node be1" "1 fault and 1 warning: service 10.0.0.80:80, trust"
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=1
be1 flotilla doctor >/dev/null
wait_for 30 hears fe "node be1" "0 faults" || bail "fe does not hear that it is gone"
version=$(mktemp)
at_exit rm -f "$version"
echo 9.8.7 >"$version"
# shellcheck disable=SC2016 # the inner shell's
other_module() { ip netns exec fe unshare -m sh -c 'mount --bind "$0" /sys/module/flotilla/version && flotilla -t doctor problems' "$1"; }
check "a program of another version than the module" grep -q "flotilla.ko is 9.8.7, this program" \
	<<<"$(other_module "$version")"

# How large packets may be.
check "packets of the usual size reach it" fine fe "node be1" "packets of 1500 bytes reach it"
must be1 ip link set eth0 mtu 1400
finds fault fe "node be1" "not those of 1500 bytes, as clients send them; those of 1400 do"
must be1 ip link set eth0 mtu 1500
must fe flotilla node set be1 forward ipip
finds warning fe "node be1" "forwarded as up to 1520 bytes, eth0 takes 1500"
must fe flotilla node set be1 forward udp
finds warning fe "node be1" "forwarded as up to 1528 bytes"
must fe flotilla node set be1 forward direct

# The packet filter.
rules() { ip netns exec be1 nft -f -; }
must rules <<-END
	table inet filter {
		chain input {
			type filter hook input priority filter; policy drop;
			iif lo accept; ct state established,related accept; meta l4proto icmp accept
			tcp dport { 22, 7471 } accept
		}
	}
END
finds fault be1 firewall "none accepts TCP port 80"
cures be1 firewall "none accepts TCP port 80"
must rules <<-END
	flush chain inet filter input
	add rule inet filter input iif eth0 tcp dport 79-81 accept
END
finds fault be1 firewall "none accepts TCP port 7471"
cures be1 firewall "none accepts TCP port 7471"
must rules <<<"insert rule inet filter input ct state new tcp flags & (syn|ack) != syn drop"
finds fault be1 firewall "drops new connections without a SYN"
cures be1 firewall "drops new connections without a SYN"
check "a filter that lets everything in that is needed is fine" fine be1 firewall "no rule"
must rules < <(echo "add set inet filter many { type ipv4_addr; flags interval; }"
	seq 0 2 60000 | awk 'BEGIN { printf "add element inet filter many { " }
		{ printf "%s10.9.%d.%d", (NR > 1 ? ", " : ""), $1 / 256, $1 % 256 } END { print " }" }')
in_little_memory() { (ulimit -v 40000 && "$@"); }
check "what a set of many addresses holds is not read" in_little_memory fine be1 firewall "no rule"
must be1 nft flush ruleset
wait_for 30 is_up || bail "the link does not come up again"

# Addresses and ARP.
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=0
finds fault be1 "service 10.0.0.80:80" "answers ARP for it on eth0"
refuse "the exit status says so" well be1
cures be1 "service 10.0.0.80:80" "answers ARP"
must be1 sysctl -w net.ipv4.conf.all.arp_announce=0
cures be1 "service 10.0.0.80:80" "ARP requests on eth0"
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.eth0.arp_ignore=1
check "the interface's own setting counts, too" well be1
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.eth0.arp_ignore=0
must be1 ip address del 10.0.0.80/32 dev lo
finds fault be1 "service 10.0.0.80:80" "no interface has its address"
must be1 ip address add 10.0.0.80/32 dev eth0
finds warning be1 "service 10.0.0.80:80" "eth0 has its address"
must be1 ip address del 10.0.0.80/32 dev eth0
cures be1 "service 10.0.0.80:80" "no interface has its address"
must be1 ip address del 10.0.0.80/32 dev lo
must be1 ip link add quiet type dummy
must be1 ip address add 10.0.0.80/32 dev quiet
must be1 ip link set quiet up
equal "an interface without ARP is as good" "trust" "$(be1 flotilla -t doctor problems | grep -v "its own doctor" | cut -f2)"
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=0
finds fault be1 "service 10.0.0.80:80" "answers ARP for it on eth0"
must be1 sysctl -w net.ipv4.conf.all.arp_ignore=1
must be1 ip link del quiet
must be1 ip address add 10.0.0.80/32 dev lo

# Who listens.
stop
finds fault be1 "service 10.0.0.80:80" "nobody listens"
serve 10.0.0.11
finds fault be1 "service 10.0.0.80:80" "nobody listens"
stop
serve ::
check "who listens on all addresses of IPv6 listens on those of IPv4" well be1
stop
serve 0.0.0.0
check "who listens on all addresses listens" well be1
must be1 flotilla service add "[fd00::80]:80"
must be1 ip address add fd00::80/128 dev lo nodad
finds fault be1 "service [fd00::80]:80" "nobody listens"
must be1 flotilla service del "[fd00::80]:80"

# The way to clients.
must be1 ip link add other type dummy
must be1 ip address add 10.7.0.1/24 dev other
must be1 ip link set other up
must be1 ip route add default via 10.7.0.2
check "another way back is no fault" well be1
must be1 sysctl -w net.ipv4.conf.eth0.rp_filter=1
cures be1 "node fe" "the reverse path filter drops them"
must be1 ip link set eth0 down
must be1 ip link set eth0 name eth0.1
must be1 ip link set eth0.1 up
must be1 sysctl -w net/ipv4/conf/eth0.1/rp_filter=1
cures be1 "node fe" "the reverse path filter drops them"
must be1 ip link set eth0.1 down
# shellcheck disable=SC2016 # as it stands
odd='e$(id)'
must be1 ip link set eth0.1 name "$odd"
must be1 ip link set "$odd" up
must be1 sysctl -w "net/ipv4/conf/$odd/rp_filter=1"
equal "a name that a shell would read is in no command" "-" \
	"$(row be1 "node fe" "the reverse path filter drops them" | cut -f4)"
must be1 ip link set "$odd" down
escape=$'e\e[5m\xff'
must be1 ip link set "$odd" name "$escape"
must be1 ip link set "$escape" up
odd=$escape
refuse "a name that a terminal would obey is not printed" grep -q $'[\e\xff]' <<<"$(be1 flotilla doctor; be1 flotilla -t doctor)"
check "but said, also in JSON" grep -qF 'by e\\x1b[5m\\xff, answers' <<<"$(be1 flotilla -j doctor problems)"
equal "it is in no command" "-" "$(row be1 "node fe" "the reverse path filter drops them" | cut -f4)"
must be1 ip link set "$odd" down
must be1 ip link set "$odd" name eth0
must be1 sysctl -w net/ipv4/conf/eth0/rp_filter=0
must be1 ip link set eth0 up
wait_for 30 is_up || bail "the link does not come up again"
must be1 ip link del other
must be1 ip route add default via 10.0.0.1
finds warning be1 "node fe" "the default route leads through it"
must be1 ip route del default

# The way to nodes.
must fe ip route add 10.5.0.0/24 via 10.0.0.11
must fe flotilla node set be1 forward-address 10.5.0.1
finds fault fe "node be1" "behind the gateway 10.0.0.11"
cures fe "node be1" "behind the gateway"
must fe ip route add prohibit 10.6.0.0/24
must fe flotilla node set be1 forward-address 10.6.0.1
finds fault fe "node be1" "there is no way to 10.6.0.1"
must fe flotilla node set be1 forward-address 10.0.0.11 forward direct

# What is set.
must fe flotilla node set be1 admin drain
finds warning fe "node be1" "it is drained"
cures fe "node be1" "it is drained"
must fe flotilla node set be1 weight 0
cures fe "node be1" "its weight is 0"
must fe sysctl -w net.flotilla.handoff=0
cures fe "sysctl handoff" "gives nothing away"
must be1 sysctl -w net.flotilla.adopt=0
cures be1 "sysctl adopt" "takes nothing"
must fe flotilla local set insecure off
finds fault fe "node be1" "its link is not authenticated"
must fe flotilla local set insecure on
must be1 flotilla service del 10.0.0.80:80
finds fault be1 services "no service is listed"
must be1 flotilla service add 10.0.0.80:80
must be1 sysctl -w net.netfilter.nf_conntrack_tcp_loose=0
cures be1 conntrack "connections that are seen from their middle on are invalid"

# Links, and what is missing.
must be1 flotilla node del fe
wait_for 30 row fe "node be1" "its link is not up"
finds fault fe "node be1" "its link is not up"
finds fault be1 nodes "no node is listed"

# Who shakes hands. Where the machine has tlshd, as if not, and where it has not, as if.
no_agent() {
	row be1 "node fe" "(tlshd)" || row fe "node be1" "(tlshd)"
}
without_tlshd() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare -m sh -c 'for dir in /usr/local/sbin /usr/sbin /usr/bin; do
			[ ! -e $dir/tlshd ] || mount --bind /dev/null $dir/tlshd
		done
		exec "$@"' sh ip netns exec "$@"
}
agents_mend() { awk -F'\t' 'index($3, "(tlshd)") { print $4 }'; }
must be1 flotilla node add fe address 10.0.0.1 role frontend auth x509
must fe flotilla node set be1 auth x509
wait_for 30 no_agent || bail "a link comes up without tlshd"
who=be1
row be1 "node fe" "(tlshd)" >/dev/null || who=fe
[ -e /usr/local/sbin/tlshd ] || { cp /bin/true /usr/local/sbin/tlshd && at_exit rm -f /usr/local/sbin/tlshd; }
equal "without tlshd it says where it comes from" "# install tlshd: package ktls-utils, or, on Debian 12, make deps-node" \
	"$(without_tlshd $who flotilla -t doctor problems | agents_mend)"
check "so does the probe" grep -q "is not installed.*ktls-utils" <<<"$(without_tlshd $who flotilla probe tlshd)"
equal "with it, how it is started" "systemctl enable --now tlshd" "$($who flotilla -t doctor problems | agents_mend)"
check "so does the probe" grep -q "does not run.*systemctl" <<<"$($who flotilla probe tlshd)"
must be1 flotilla node del fe

must be1 ip address del 10.0.0.11/24 dev eth0
finds fault be1 local "no interface has its address 10.0.0.11"
finds fault empty local "it has no name"
stop
must fe flotilla node del be1
must modprobe -r handoff
cures fe handoff "handoff.ko is not loaded"
finish
