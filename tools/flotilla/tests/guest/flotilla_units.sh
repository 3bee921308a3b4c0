#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# kernel: stock
# long: stock a minute and two machines
# shellcheck disable=SC2317,SC2154,SC2016 # functions called by name; namespaces are functions; a script for awk
# What `make install` installs, started by systemd as on a machine: two of them, in namespaces, that serve a site.
. "$FLT_TOP/tools/testing/lib.sh"

VIP=10.0.0.200
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"

need make curl unshare nsenter /lib/systemd/systemd
must make -s -C "$FLT_TOP" install-programs
load handoff
lan client:10.0.0.100 fe:10.0.0.1 be:10.0.0.2
must fe ip addr add $VIP/24 dev eth0
holds be $VIP
echo "+memory +pids" >/sys/fs/cgroup/cgroup.subtree_control

# boot NAME UNIT...: with the files below $DIR/NAME.
declare -A machines
boot() {
	local name=$1 outer
	mkdir -p "/sys/fs/cgroup/$name"
	(
		echo $BASHPID >"/sys/fs/cgroup/$name/cgroup.procs"
		exec ip netns exec "$name" unshare --mount --pid --uts --ipc --cgroup --fork --kill-child \
			"$FLT_TOP/tools/flotilla/tests/lib/machine.sh" "$name" "$DIR/$name" "${@:2}" >"$DIR/$name.log" 2>&1
	) &
	outer=$!
	at_exit "kill -9 $outer"
	born() { machines[$name]=$(pgrep -P "$outer"); }
	wait_for 20 born
}

# on NAME COMMAND...
on() {
	nsenter -t "${machines[$1]}" -m -p -u -i -n -- "${@:2}"
}

is_up() {
	[ "$(on "$1" systemctl is-system-running)" = running ]
}

serves() {
	client curl -sf -m 5 -o "$DIR/body" "http://$VIP/" && [ "$(cat "$DIR/body")" = shipped ]
}

active() {
	on "$1" systemctl -q is-active "${@:2}"
}

main_pid() {
	on fe systemctl show -p MainPID --value "$1"
}

has_node() {
	fe flotilla -t node show "$1" | cut -f"$2" | grep -qx "$3"
}

# What may be an error: by any program, and by systemd about the units.
complaints() {
	on "$1" journalctl -b -q -o cat _TRANSPORT=stdout + _TRANSPORT=journal + _TRANSPORT=syslog |
		grep -iE 'unknown (key|section|lvalue)|failed to|denied|not permitted|no such'
}

write() {
	mkdir -p "${1%/*}"
	cat >"$1"
}

# As installed, but for the addresses.
write "$DIR/fe/etc/flotilla/lardd.conf" < <(sed "s/^listen .*/listen $VIP:80/; s/^# \(access-log\|metrics\)/\1/" \
	/etc/flotilla/lardd.conf)
write "$DIR/fe/etc/flotilla/flotilla.conf" <<-CONF
	local name fe address 10.0.0.1 insecure on
	service $VIP:80
	sysctl handoff_timeout_ms 15000
CONF
write "$DIR/be/etc/flotilla/flotilla.conf" <<-CONF
	local name be address 10.0.0.2 insecure on
	node fe address 10.0.0.1 role frontend
	service $VIP:80
CONF
write "$DIR/fe/etc/flotilla/follow" <<<"FOLLOW=file:/etc/flotilla/nodes"
write "$DIR/fe/etc/flotilla/nodes" <<<"node be address 10.0.0.2"
write "$DIR/be/var/www/html/index.html" <<<shipped

boot fe flotilla.service lardd.service flotilla-follow.service flotilla-metrics.socket
boot be flotilla.service flash.service
for name in fe be; do
	check "all that $name starts is up" wait_for 90 is_up $name
done
check "the settings are applied, and the nodes of a file" wait_for 30 has_node be 5 up
check "a client is served" wait_for 60 serves
ask() { on fe python3 "$FLT_TOP/lard/tests/lib/ask.py" /run/flotilla/lardd.sock "$@"; }
handed_off() { [ "$(ask '{"cmd":"stats"}' counters LardHandedOff)" -gt 0 ]; }
check "by handoff" wait_for 20 handed_off
equal "lardd is the user that the package makes, and has two rights" "$(id -u flotilla) 0000000000001400 1" \
	"$(on fe awk '/^Uid/ { uid = $3 } /^CapEff/ { caps = $2 } /^NoNewPrivs/ { print uid, caps, $2 }' "/proc/$(main_pid lardd)/status")"
check "there are counters at the socket" \
	sh -c "ip netns exec fe curl -sf -m 20 http://127.0.0.1:9181/metrics | grep -q '^flotilla_node_up'"
check "and of lardd" sh -c "ip netns exec fe curl -sf -m 20 http://127.0.0.1:9180/metrics | grep -q ^lard_requests"

# logged NAME FILE WORDS
logged() { on "$1" grep -q "$3" "/var/log/$2"; }
check "lardd writes its log" wait_for 20 logged fe flotilla/access.log '"how":"handoff"'
check "flash writes its log" wait_for 20 logged be flash/access.log "GET / HTTP/1.1"

write "$DIR/nodes" <<<"node be address 10.0.0.2"$'\n'"node be2 address 10.0.0.3 weight 7"
on fe sh -c 'cat >/etc/flotilla/nodes.new && mv /etc/flotilla/nodes.new /etc/flotilla/nodes' <"$DIR/nodes"
check "the file is followed" wait_for 30 has_node be2 8 7

for unit in lardd flotilla; do
	check "$unit is reloaded" on fe systemctl reload $unit
done
check "flash is reloaded" on be systemctl reload flash
check "and serves" wait_for 20 serves
on fe sh -c 'echo nonsense >>/etc/flotilla/flotilla.conf; echo nonsense >>/etc/flotilla/lardd.conf'
for unit in lardd flotilla; do
	refuse "$unit is not reloaded with a file that is wrong" on fe systemctl reload $unit
	check "and is active" active fe $unit
done
on fe sed -i /nonsense/d /etc/flotilla/flotilla.conf /etc/flotilla/lardd.conf
check "and serves as before" wait_for 20 serves

before=$(main_pid lardd)
on fe kill -9 "$before"
again() { [ "$(main_pid lardd)" -gt 0 ] && [ "$(main_pid lardd)" != "$before" ] && active fe lardd; }
check "lardd that dies is started again" wait_for 30 again
check "and serves" wait_for 60 serves

# What apply does not understand is no reason to try again.
on fe sh -c 'echo nonsense >>/etc/flotilla/flotilla.conf'
on fe systemctl restart flotilla 2>/dev/null
equal "settings that are wrong fail once" "ActiveState=failed NRestarts=0 Result=exit-code" \
	"$(on fe systemctl show -p ActiveState -p Result -p NRestarts flotilla | sort | paste -sd' ')"
check "and say where" sh -c "nsenter -t ${machines[fe]} -m -p -- journalctl -q -o cat -u flotilla | grep -q 'flotilla.conf:4: a line begins'"
check "the node is still there" has_node be 5 up
on fe sed -i /nonsense/d /etc/flotilla/flotilla.conf
check "they are applied when they are right" on fe systemctl restart flotilla

for name in fe be; do
	equal "nothing is amiss in what $name says" "" "$(complaints $name | grep -v nonsense)"
done
check "all ends when told to" on fe timeout $((40 * slow)) systemctl stop lardd flotilla-follow flotilla-metrics.socket flotilla
check "all of the other, too" on be timeout $((50 * slow)) systemctl stop flash flotilla
for name in fe be; do
	equal "none of $name has failed" "" "$(on $name systemctl list-units --state=failed --plain --no-legend)"
done
equal "and left nothing behind" "" "$(on fe pgrep -l 'lardd|flotilla'; on be pgrep -l 'flash|flotilla')"
finish
