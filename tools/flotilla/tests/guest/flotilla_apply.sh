#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes three minutes there
# timeout: 600
# shellcheck disable=SC2317,SC2154 # functions called by name; namespaces are functions
# What save prints and apply makes: twice the same is once, what is wrong changes nothing, what is equal is not touched.
. "$FLT_TOP/tools/testing/lib.sh"

VIP=10.0.0.200
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"

need flotilla lardd nginx python3 setpriv
load handoff
lan client:10.0.0.100 fe:10.0.0.1 be:10.0.0.2
must fe ip addr add $VIP/24 dev eth0
holds be $VIP

# apply NAMESPACE TEXT [OPTION...]: its output, both streams, and its status behind them.
apply() {
	local ns=$1 text=$2 status
	shift 2
	printf '%s\n' "$text" >"$DIR/file"
	"$ns" flotilla apply "$@" "$DIR/file" >"$DIR/output" 2>&1
	status=$?
	sed "s|$DIR/||g" "$DIR/output"
	[ $status = 0 ] || echo "status $status"
}

state() {
	"$1" flotilla save
}

# identity NAMESPACE: what another node would have in its place, and how often its link came up anew.
identity() {
	"$1" flotilla -t node show | cut -f1,2,15
}

# refused NAME SENTENCE TEXT [OPTION...]: status and sentence, and nothing is changed in the front-end.
refused() {
	local name=$1 sentence=$2 text=$3 before
	shift 3
	before=$(state fe)
	equal "$name" "$sentence" "$(apply fe "$text" "$@")"
	equal "$name: nothing is changed" "$before" "$(state fe)"
}

is_up() {
	[ "$("$1" flotilla -t node show "$2" | cut -f5)" = up ]
}

FE="local name fe address 10.0.0.1 insecure on
node be address 10.0.0.2
node be2 address 10.0.0.33 weight 50
service $VIP:80
policy lard/r t_low 30 t_high 70 max_outstanding auto
links heartbeat_ms 9000
sysctl handoff_timeout_ms 15000"
BE="local name be address 10.0.0.2 insecure on
node fe address 10.0.0.1 role frontend
service $VIP:80
links heartbeat_ms 9000"

# From nothing.
equal "a node without a name has nothing to save" \
	'flotilla: cannot save: this node has no name and address yet; try "flotilla local set help"' "$(fe flotilla save 2>&1)"
planned="~ sysctl handoff_timeout_ms 200 -> 15000
~ links heartbeat_ms 1000 -> 9000
~ policy t_low 25 -> 30, t_high 65 -> 70
+ local name fe address 10.0.0.1 insecure on
+ service $VIP:80
+ node be address 10.0.0.2
+ node be2 address 10.0.0.33 weight 50"
equal "a dry run prints what would change" "$(sort <<<"$planned")" "$(apply fe "$FE" --dry-run | sort)"
equal "and changes nothing" "[]" "$(fe flotilla -j node show)"
equal "apply prints what it changed" "$(sort <<<"$planned")" "$(apply fe "$FE" | sort)"
equal "the peer gets its table from standard input" 3 "$(printf '%s\n' "$BE" | be flotilla apply - | grep -c '^+')"
wait_for 30 is_up fe be
claim "the link comes up" $? "$(fe flotilla node show)"

# Twice is once.
before=$(identity fe)
first=$(head -n1 <<<"$before")
equal "applied again it changes nothing" "nothing to change" "$(apply fe "$FE")"
equal "in JSON too" "[]" "$(fe flotilla -j apply "$DIR/file")"
state fe >"$DIR/saved" && fe flotilla -p save >"$DIR/saved.json"
equal "what save prints is what there is" "nothing to change" "$(fe flotilla apply "$DIR/saved")"
equal "in JSON too" "nothing to change" "$(fe flotilla apply "$DIR/saved.json")"
equal "the limit is automatic, although a number shows" 1 "$(grep -c 'max_outstanding auto' "$DIR/saved")"
equal "a value of each kind is saved" 3 "$(grep -cE 't_low 30|heartbeat_ms 9000|handoff_timeout_ms 15000' "$DIR/saved")"
equal "the nodes and their links are the same" "$before" "$(identity fe)"

# What is wrong.
refused "a bad address is told with its line" \
	"flotilla: file:3: cannot use node be2: address 10.0.0.333 is not an address"$'\n'"status 2" "${FE/.33/.333}"
refused "a node twice" "flotilla: file:8: cannot use node be: a node of that name is there already"$'\n'"status 2" \
	"$FE"$'\n'"node be address 10.0.0.9"
refused "an empty file" 'flotilla: file: the line "local name NAME address ADDRESS" is missing'$'\n'"status 2" ""
refused "limits that cross" "flotilla: file:5: t_low 70 is not below t_high 70"$'\n'"status 2" "${FE/t_low 30/t_low 70}"
refused "a key that nobody has" \
	"flotilla: file:2: cannot use node be: key: No such file or directory"$'\n'"status 1" \
	"${FE/10.0.0.2/10.0.0.2 auth psk key $DIR/key}"
before=$(state fe)
printf '%s\n' "${FE/weight 50/weight 60}" >"$DIR/file"
equal "without the capability nothing is changed" \
	"flotilla: cannot apply $DIR/file: this needs CAP_NET_ADMIN in the network namespace" \
	"$(fe setpriv --bounding-set=-net_admin --inh-caps=-net_admin flotilla apply "$DIR/file" 2>&1)"
equal "really" "$before" "$(state fe)"
check "but what would be is shown" \
	fe setpriv --reuid=65534 --clear-groups --inh-caps=-all flotilla apply --dry-run - <"$DIR/file"

# A connection that was handed off lives on.
cat >"$DIR/nginx.conf" <<-CONF
	daemon off; user root; worker_processes 1; pid $DIR/nginx.pid; error_log $DIR/nginx.error;
	events { }
	http { access_log off; keepalive_timeout 600; server { listen 80; location / { return 200 "be\n"; } } }
CONF
be nginx -c "$DIR/nginx.conf" >/dev/null 2>&1 &
wait_for 30 listening be 80 || bail "nginx does not listen"
printf 'listen %s:80\ncontrol %s/lardd.sock\n' $VIP "$DIR" >"$DIR/lardd.conf"
ip netns exec fe lardd -c "$DIR/lardd.conf" --foreground 2>"$DIR/lardd.log" &
dispatcher=$!
at_exit kill $dispatcher
wait_for 30 listening fe 80 || bail "lardd does not listen: $(cat "$DIR/lardd.log")"
cat >"$DIR/keep.py" <<'PY'
import http.client, os, sys, time
vip, directory = sys.argv[1:]
connection = http.client.HTTPConnection(vip, timeout=120)
for number in range(3):
    while number and not os.path.exists("%s/go%d" % (directory, number)):
        time.sleep(0.05)
    try:
        connection.auto_open = number == 0
        connection.request("GET", "/")
        said = connection.getresponse().read().decode().strip()
    except Exception as error:  # what a client would see
        said = repr(error)
    with open("%s/said%d.new" % (directory, number), "w") as out:
        out.write(said)
    os.rename("%s/said%d.new" % (directory, number), "%s/said%d" % (directory, number))
PY
ip netns exec client python3 "$DIR/keep.py" $VIP "$DIR" &
at_exit kill $!
wait_for 60 test -e "$DIR/said0"
equal "a request is answered" be "$(cat "$DIR/said0")"
equal "its connection was handed off" 1 "$(fe flotilla conn show count)"
equal "the file is applied again" "nothing to change" "$(apply fe "$FE")"
touch "$DIR/go1"
wait_for 60 test -e "$DIR/said1"
equal "the connection lives on" be "$(cat "$DIR/said1")"
equal "a change of its node is one line" "~ node be weight 100 -> 200" "$(apply fe "${FE/10.0.0.2/10.0.0.2 weight 200}")"
touch "$DIR/go2"
wait_for 60 test -e "$DIR/said2"
equal "and lives on" be "$(cat "$DIR/said2")"
equal "what a line does not give has its default" "~ node be weight 200 -> 100" "$(apply fe "$FE")"
equal "all the time it was the same node and link" "$first" \
	"$(fe flotilla -t node show be | cut -f1,2,15)"
[ "$(fe flotilla -t node show be | cut -f15)" = 0 ]
claim "which never came up anew" $? "$(fe flotilla node show)"

two="${FE/10.0.0.33/10.0.0.34}"
# Two at once take turns.
(exec 9<>/run/flotilla/apply.lock && flock 9 && echo 4711 >&9 && touch "$DIR/held" && exec sleep 60) &
holder=$!
at_exit kill $holder
wait_for 10 test -e "$DIR/held"
begin=$SECONDS
equal "who comes while another is at it waits, and says so when it takes too long" \
	"flotilla: cannot apply file: another one (process 4711) has been at it for 10 seconds"$'\n'"status 1" \
	"$(apply fe "$two" | sed "s|$DIR/||g")"
[ $((SECONDS - begin)) -lt $((20 * slow)) ]
claim "not for ever" $? "$((SECONDS - begin)) seconds"
check "who only looks does not wait" fe timeout 5 flotilla apply --dry-run "$DIR/file"
kill $holder
equal "only root can open what is locked" "600 root" "$(stat -c '%a %U' /run/flotilla/apply.lock)"
equal "who has gone holds up nobody" "nothing to change" "$(apply fe "$FE")"

# Nodes that go, move and take each other's places.
equal "another address is another node, and that is said" \
	"~ node be2 address 10.0.0.33 -> 10.0.0.34: it is removed and added again, its connections are reset" "$(apply fe "$two")"
equal "another name at the same address" "- node be2 address 10.0.0.34 weight 50
+ node be3 address 10.0.0.34 weight 50" "$(apply fe "${two/node be2/node be3}")"
fe flotilla node add be2 address 10.0.0.35
swapped="$(sed '/^node be2/d' <<<"$FE")
node be2 address 10.0.0.34
node be3 address 10.0.0.35"
equal "two that change places do" 2 "$(apply fe "$swapped" | grep -c 'removed and added again')"
equal "both of them" "be2 10.0.0.34,be3 10.0.0.35" \
	"$(fe flotilla -t node show be2 be3 | cut -f2,3 | tr '\t' ' ' | sort | paste -sd,)"
fewer=$(sed '/^node be2/d; /^service/d' <<<"$FE")
equal "what is not in the file stays if asked for" "nothing to change" "$(apply fe "$fewer" --keep)"
equal "and goes otherwise" "- node be2 address 10.0.0.34
- node be3 address 10.0.0.35
- service $VIP:80" "$(apply fe "$fewer" | sort)"
is_up fe be
claim "the other one has been up all along" $?

# The kernel has the last word.
fe flotilla node add old address 10.0.0.40
equal "what the kernel refuses is told with its line, the rest is done, and nothing is taken away" \
	"+ node new address 10.0.0.41
+ service $VIP:80
flotilla: file: 2 changes done, 1 failed, 1 removals not tried for that; apply it again when it is mended
flotilla: file:1: cannot set this node: not an address of this machine
status 1" "$(apply fe "${fewer/address 10.0.0.1/address 10.0.0.9}
node new address 10.0.0.41
service $VIP:80" | LC_ALL=C sort)"
equal "who was to go is there" "old" "$(fe flotilla -t node show old | cut -f2)"
check "when it is mended all is done" fe flotilla apply "$DIR/saved"
equal "and the whole is what was saved" "$(cat "$DIR/saved")" "$(state fe)"

# Keys are named, never shown.
if modprobe nvme-keyring 2>/dev/null; then
	(umask 077 && head -c 32 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >"$DIR/key" && echo >>"$DIR/key")
	keyed="$FE"$'\n'"node kept address 10.0.0.50 auth psk key $DIR/key"
	equal "a node gets its key from a file" "+ node kept address 10.0.0.50 auth psk key key" "$(apply fe "$keyed")"
	equal "which is loaded once" "nothing to change" "$(apply fe "$keyed")"
	state fe >"$DIR/with-key"
	equal "a saved file names it" "node kept address 10.0.0.50 auth psk key flotilla" "$(grep '^node kept' "$DIR/with-key")"
	refuse "and does not have it" grep -q "$(cut -c1-16 "$DIR/key")" "$DIR/with-key"
	equal "nor needs it" "nothing to change" "$(fe flotilla apply "$DIR/with-key")"
	(umask 077 && head -c 32 /dev/urandom | od -An -tx1 -v | tr -d ' \n' >"$DIR/key" && echo >>"$DIR/key")
	check "another key in the file is a difference" grep -q '^~ node kept key [0-9]* -> key$' <<<"$(apply fe "$keyed")"
	equal "once" "nothing to change" "$(apply fe "$keyed")"
	chmod 644 "$DIR/key"
	equal "a key that others may read is refused" 2 "$(apply fe "$keyed" | grep -cE 'others may read|status 1')"
else
	skip "a node gets its key from a file" "this kernel has no keys of type psk"
fi
check "back to the file" fe flotilla apply "$DIR/saved"

# Policies and redirection of services. No server has the port.
S=$VIP:8080
rules="migrate $S hash self be be9 admit=4
redirect $S above 500 hysteresis 50 take off hint 7"
added="+ ${rules/$'\n'/$'\n'+ }"
rules_of() {
	fe flotilla -t migrate policy show && fe flotilla -t redirect show | cut -f1-6,8
}
tabs() {
	tr ' ' '\t' <<<"$1"
}
state fe >"$DIR/without"
refused "a second policy of a service" "flotilla: file:10: cannot use migrate $S: that service has a policy already"$'\n'"status 2" \
	"$FE"$'\n'"$rules"$'\n'"migrate $S stay"
equal "rules are planned" "$added" "$(apply fe "$FE"$'\n'"$rules" --dry-run)"
equal "and not made by that" "" "$(rules_of)"
equal "they are made" "$added" "$(apply fe "$FE"$'\n'"$rules")"
equal "as the kernel has them" "$VIP	8080	hash	self be be9 admit=4
$(tabs "$VIP 8080 500 - 50 no set")" "$(rules_of)"
equal "once" "nothing to change" "$(apply fe "$FE"$'\n'"$rules")"
state fe >"$DIR/rules" && fe flotilla -p save >"$DIR/rules.json"
equal "they are saved, and nothing else is" "$rules" "$(diff "$DIR/without" "$DIR/rules" | sed -n 's/^[<>] //p')"
equal "what is saved is what there is" "nothing to change" "$(fe flotilla apply "$DIR/rules")"
equal "in JSON too" "nothing to change" "$(fe flotilla apply "$DIR/rules.json")"
equal "a list of each kind" "hash admit=4 500 off" "$(python3 -c 'import json, sys
saved = json.load(sys.stdin)
policy, rule = saved["migrate"][0], saved["redirect"][0]
print(policy["policy"], policy["arguments"][3], rule["above"], rule["take"])' <"$DIR/rules.json")"
equal "what a line does not give has its default" "~ migrate $S hash self be be9 admit=4 -> stay
~ redirect $S above 500 -> off, queue off -> 90, hysteresis 50 -> 1, take off -> on, hint 7 -> auto" \
	"$(apply fe "$FE"$'\n'"redirect $S queue 90"$'\n'"migrate $S stay")"
equal "in the kernel, too" "$(tabs "$VIP 8080 stay")	-
$(tabs "$VIP 8080 - 90 1 yes counted")" "$(rules_of)"
equal "what is not in the file stays if asked for" "nothing to change" "$(apply fe "$FE" --keep)"
equal "a policy that nobody offers is told with its line, and nothing is taken away" \
	"flotilla: file: 0 changes done, 1 failed, 1 removals not tried for that; apply it again when it is mended
flotilla: file:8: cannot set the policy of $S: there is no such policy
status 1" "$(apply fe "$FE"$'\n'"migrate $S none" | LC_ALL=C sort)"
fe flotilla node add old address 10.0.0.40
check "a policy may name a node that is to go" fe flotilla migrate policy set $VIP:8081 simple old
equal "it goes before the node does" "- migrate $S stay
- migrate $VIP:8081 simple old
- redirect $S queue 90
- node old address 10.0.0.40" "$(apply fe "$FE")"
equal "and nothing is left" "" "$(rules_of)"
equal "but what was there before" "$(cat "$DIR/without")" "$(state fe)"
# 64 others, where there is room for 64.
seq 1 64 | sed "s/.*/redirect $VIP:&/" >"$DIR/first"
equal "as many as there is room for" 64 "$(apply fe "$FE"$'\n'"$(cat "$DIR/first")" | grep -c '^+')"
equal "make room for as many others" "64 64" "$(apply fe "$FE"$'\n'"$(sed 's/:/:10/' "$DIR/first")" |
	awk '{ n[$1]++ } END { print n["+"], n["-"] }')"
equal "and go" 64 "$(apply fe "$FE" | grep -c '^-')"

# Exports.
refuse "nothing so far has loaded a module for exports" test -e /sys/module/card
modprobe loop 2>/dev/null
if truncate -s 16M "$DIR/disk" && loop=$(losetup -f --show "$DIR/disk"); then
	at_exit losetup -d "$loop"
	at_exit "fe flotilla card unexport data"
	export="export data device $loop nodes be"
	equal "an export loads it, and is made" "+ $export" "$(apply fe "$FE"$'\n'"$export")"
	equal "once" "nothing to change" "$(apply fe "$FE"$'\n'"$export")"
	equal "and saved" "$export" "$(state fe | grep ^export)"
	equal "how it answers is changed in place" "~ export data serve mix -> thread" \
		"$(apply fe "$FE"$'\n'"$export serve thread")"
	equal "who may have it not, and that is said" "~ export data nodes be -> be,be2, write off -> on, serve thread -> mix: it is ended and offered again, who has it waits meanwhile" \
		"$(apply fe "$FE"$'\n'"$export,be2 write")"
	equal "a disk that is not in the file is exported no more" "- $export,be2 write" "$(apply fe "$FE")"
else
	skip "an export loads it, and is made" "there are no loop devices"
fi

# Without handoff.ko.
kill "$dispatcher"
bare=$(sed '/^sysctl/d' <<<"$FE")
check "a rule does not keep the module" fe flotilla redirect set $S
wait_for 30 rmmod handoff || bail "handoff.ko is held"
refuse "without the module save prints no rules" grep -qE '^(migrate|redirect)' <<<"$(state fe)"
for rule in "migrate $S stay" "redirect $S"; do
	refused "a file that wants ${rule%% *} is refused" "flotilla: file:7: handoff.ko is not loaded: modprobe handoff"$'\n'"status 1" \
		"${bare/weight 50/weight 60}"$'\n'"$rule"
done
equal "one that wants none is not" "~ node be2 weight 50 -> 60" "$(apply fe "${bare/weight 50/weight 60}")"
refuse "and nothing of it has loaded the module" test -e /sys/module/handoff
finish
