#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The command line says in one sentence what is wrong with it, and asks nobody then.
. "$FLT_TOP/tools/testing/lib.sh"
top=$FLT_TOP

result()	# status claim [what was seen]
{
	claim "$2" "$1" "${3-}"
}

refuses()	# status sentence ARGUMENT...
{
	local status=$1 sentence=$2 seen code
	shift 2
	seen=$(flotilla "$@" 2>&1 >/dev/null)
	code=$?
	[ "$code" = "$status" ] && [ "$seen" = "flotilla: $sentence" ]
	result $? "flotilla $*: $sentence" "status $code: $seen"
}

prints()	# claim pattern ARGUMENT...
{
	local claim=$1 pattern=$2 seen code
	shift 2
	seen=$(flotilla "$@" 2>&1)
	code=$?
	[ "$code" = 0 ] && grep -q -- "$pattern" <<<"$seen"
	result $? "$claim" "status $code: $seen"
}

refuses 2 'cannot add node be1: address 10.0.0.300 is not an address' \
	node add be1 address 10.0.0.300
refuses 2 'cannot add node be1: its address is missing' node add be1 weight 3
# What a file, or somebody else, has put there is not for the terminal to obey.
equal "a sentence is one line of what prints" \
	"flotilla: there is no object \x1b[2Jbe1\x0a\xc2\x9b; try \"flotilla help\"" "$(flotilla $'\e[2Jbe1\n\xc2\x9b' 2>&1)"
printf '%s\n' 'local name fe address 10.0.0.1' $'node be1 \e]0;title\a 10.0.0.3' >"$top/build/hostile"
equal "what a file has is no other" \
	"flotilla: $top/build/hostile:2: cannot use node be1: \x1b]0;title\x07 is not an argument of this command; try \"help\" in its place" \
	"$(flotilla apply "$top/build/hostile" 2>&1)"
printf '{"local": {"name": "fe", "address": "10.0.0.1"}, "\\u001b[2J": 1}' >"$top/build/hostile"
equal "nor what it has as JSON" \
	"flotilla: $top/build/hostile: \x1b[2J: members are local, nodes, services, policy, links, sysctl, migrate, redirect and exports" \
	"$(flotilla apply "$top/build/hostile" 2>&1)"
rm -f "$top/build/hostile"
refuses 2 'cannot add a node: its name is missing' node add
refuses 2 'cannot add node be1: weight 65536 is not between 0 and 65535' \
	node add be1 address 10.0.0.3 weight 65536
refuses 2 'cannot add node be1: weight -1 is not a number' \
	node add be1 address 10.0.0.3 weight -1
refuses 2 'cannot add node be1: weight 99999999999999999999 is not between 0 and 65535' \
	node add be1 address 10.0.0.3 weight 99999999999999999999
refuses 2 'cannot add node be1: port 0 is not between 1 and 65535' \
	node add be1 address 10.0.0.3 port 0
refuses 2 'cannot add node be1: forward gre is not direct, ipip or udp' \
	node add be1 address 10.0.0.3 forward gre
refuses 2 'cannot add node be1: role master is not backend or frontend' \
	node add be1 address 10.0.0.3 role master
refuses 2 'cannot add node be1: auth psk needs a key' node add be1 address ::1 auth psk
refuses 2 'cannot add node be1: a key goes only with auth psk' node add be1 address ::1 key 5
refuses 2 'cannot add service 10.0.0.300:80: address 10.0.0.300 is not an address' service add 10.0.0.300:80
refuses 2 'cannot add service 10.0.0.80:0: port 0 is not between 1 and 65535' service add 10.0.0.80:0
refuses 2 'cannot add service [::1: service [::1 is not [ADDRESS]:PORT' service add '[::1'
refuses 2 'cannot add a service: its address is missing' service add
refuses 2 'cannot load a key: its file is missing' auth key
printf 'nothing\n' >"$top/build/not-a-key" && chmod 600 "$top/build/not-a-key"
refuses 1 "cannot load the key in $top/build/not-a-key: $top/build/not-a-key does not hold 64 hexadecimal digits" \
	auth key "$top/build/not-a-key"
mkfifo "$top/build/a-fifo" 2>/dev/null
equal "a FIFO keeps nobody waiting" "flotilla: cannot load the key in $top/build/a-fifo: $top/build/a-fifo is not a regular file" \
	"$(timeout 10 flotilla auth key "$top/build/a-fifo" 2>&1)"
rm -f "$top/build/a-fifo"
# A file that may have no byte ends the process in its write, as a power cut would.
keys=$(mktemp -d)
at_exit rm -rf "$keys"
(ulimit -c 0 -f 0 && exec flotilla auth key "$keys/key") >/dev/null 2>&1
refuse "half a key is no file" test -e "$keys/key"
flotilla auth key "$keys/key" >/dev/null 2>&1
check "it is made the next time" grep -qxE '[0-9a-f]{64}' "$keys/key"
equal "and is nobody else's" 600 "$(stat -c %a "$keys/key")"
for _ in $(seq 20); do
	rm -f "$keys"/*
	for _ in 1 2 3 4 5 6; do flotilla auth key "$keys/key" >/dev/null 2>>"$keys.said" & done
	wait
done
equal "whoever is not the first has the first one's" "" "$(grep -E 'cannot be|does not hold' "$keys.said")"
equal "and nothing else is left" key "$(ls "$keys")"
rm -f "$keys.said"
if [ "$EUID" = 0 ]; then
	chown 65534 "$top/build/not-a-key"
	refuses 1 "cannot load the key in $top/build/not-a-key: $top/build/not-a-key is user 65534's, who knows it: make a new key" \
		auth key "$top/build/not-a-key"
	chown 0 "$top/build/not-a-key"
fi
chmod 644 "$top/build/not-a-key"
refuses 1 "cannot load the key in $top/build/not-a-key: others may read $top/build/not-a-key: chmod 600, and make a new key" \
	auth key "$top/build/not-a-key"
rm "$top/build/not-a-key"
refuses 2 'cannot set this node: insecure perhaps is not off or on' local set insecure perhaps
refuses 2 'cannot add node be1: weight needs a value' node add be1 address 10.0.0.3 weight
refuses 2 \
	'cannot add node be1: colour is not an argument of this command; try "help" in its place' \
	node add be1 colour red
refuses 2 "cannot add node b/1: name b/1 has a character other than letters, digits, '.', '_', '-'" \
	node add b/1 address 10.0.0.3
long=abcdefghijklmnopqrstuvwxyz012345
refuses 2 "cannot add node $long: name \"$long\" does not have 1 to 31 characters" \
	node add $long address 10.0.0.3
refuses 2 'cannot change node be1: nothing to change is given' node set be1
refuses 2 \
	'cannot change node be1: address is not an argument of this command; try "help" in its place' \
	node set be1 address 10.0.0.4
refuses 2 'cannot set the policy: t_low many is not a number' policy set t_low many
refuses 2 'cannot set the policy: t_low is given twice' policy set t_low 1 t_low 2
refuses 2 'cannot set the policy: nothing to set is given' policy set
refuses 2 'cannot redirect 10.0.0.80:80: hint heavy is not a number' redirect set 10.0.0.80:80 above 3 hint heavy
refuses 2 'cannot redirect 10.0.0.80:80: take perhaps is not off or on' redirect set 10.0.0.80:80 take perhaps
refuses 2 'cannot redirect 10.0.0.80:80: queue 101 is not between 0 and 100' redirect set 10.0.0.80:80 queue 101
refuses 2 'cannot redirect 10.0.0.80:80: colour is not an argument of this command; try "help" in its place' \
	redirect set 10.0.0.80:80 colour red
refuses 2 'cannot show the counters: Prometheus text is not JSON' -j stats --prometheus
refuses 2 'cannot show the counters: --http is for --prometheus' stats --http
refuses 2 'cannot watch: interval 0 is not between 0.1 and 3600 seconds' top interval 0
refuses 2 'cannot watch: interval nan is not between 0.1 and 3600 seconds' top -d nan
refuses 2 'cannot watch: interval 1s is not between 0.1 and 3600 seconds' top interval 1s
refuses 2 'cannot watch: count 0 is not between 1 and 2147483647' top -n 0
refuses 2 'cannot watch: count needs a value' top count
refuses 2 'cannot watch: often is not an argument of this command; try "help" in its place' top often
refuses 2 'cannot probe: there is no probe named luck' probe luck
refuses 2 'cannot examine this node: pain is not an argument of this command; try "help" in its place' doctor pain
refuses 2 'cannot apply: a file is missing' apply --keep
refuses 2 'cannot apply: --dryrun is not an argument of this command; try "help" in its place' apply --dryrun /dev/null
refuses 2 '/dev/null: the line "local name NAME address ADDRESS" is missing' apply /dev/null
refuses 2 'cannot save: now is not an argument of this command; try "help" in its place' save now
refuses 2 'cannot explain: a URL is missing' explain
refuses 2 'cannot set how the kernel answers: mode fast is not off, softirq, thread or hybrid' afpa set mode fast
refuses 2 'cannot set how the kernel answers: policy fifo is not clock or lru' afpa set policy fifo
refuses 2 'cannot set how the kernel answers: budget 3X is not like 4096, 64K, 3M or 2G' afpa set budget 3X
refuses 2 'cannot set how the kernel answers: nothing to set is given' afpa set
refuses 2 'cannot ban objects: what their URLs begin with is missing' cache ban site 0.0.0.0:80
refuses 2 'cannot ban objects: the tag is missing' cache ban --tag
refuses 2 'cannot ban a b: tag a b is not one word' cache ban --tag 'a b'
refuses 2 'cannot put a/x: age never is not like 0, 30s, 10m, 2h or 1d' cache put a/x /dev/null age never
refuses 2 'cannot put a/x: age 600000h is too much' cache put a/x /dev/null age 600000h
refuses 2 'cannot put a/x: 0 is not a ticket' cache put a/x /dev/null since 0
refuses 2 'cannot put a/x: a tag is empty' cache put a/x /dev/null tag ''
refuses 2 'cannot add a site: its address is missing' afpa site add
refuses 2 'cannot add a site: its address is missing' afpa site add protocol memcached
refuses 2 'cannot add site 10.0.0.1: site 10.0.0.1 has no port' afpa site add 10.0.0.1
refuses 2 'cannot delete site ::1: site ::1 has no port' afpa site del 0.0.0.0:80 ::1
refuses 2 'cannot put an object: its URL is missing' cache put
refuses 2 'cannot put http://a/x: a file is missing (-: standard input)' cache put http://a/x
refuses 2 'cannot put http://a/x: a file is missing' cache file http://a/x
refuses 2 'cannot put http://a: http://a has no path' cache put http://a /dev/null
refuses 2 'cannot put https://a/: https://a/ does not begin with http://' cache put https://a/ /dev/null
for path in /../x /%2e/x '/ä' /x#y /%0 /%00; do
	refuses 2 "cannot put a$path: the path of a$path is not encoded as in requests, has a segment of dots, or is too long" \
		cache put "a$path" /dev/null
done
for host in a. a..b a:080 a:65536 'u@a' '[::1' '**' '*.a'; do
	refuses 2 "cannot query $host/: the host of $host/ is not a name or an address" cache query "$host/"
done
refuses 2 'cannot put a/x: ttl 5x is not like 500ms, 30s, 10m, 2h, 1d or never' cache put a/x /dev/null ttl 5x
# Just more than 2^32 ms, and than 2^63 bytes.
for ttl in 4294968 4294968s 71583m 1194h 50d; do
	refuses 2 "cannot put a/x: ttl $ttl is too much" cache put a/x /dev/null ttl $ttl
done
for bytes in 9223372036854775808 9007199254740992K 8796093022208M 8589934592G 8388608T; do
	refuses 2 "cannot set how the kernel answers: budget $bytes is too much" afpa set budget $bytes
done
refuses 2 'cannot put a/x: header X is not like '"'Name: value'" cache put a/x /dev/null header X
refuses 2 'cannot put a/x: Set-Cookie is not a header that one answer for all clients can be given' \
	cache put a/x /dev/null header 'set-cookie: a=b'
refuses 2 'cannot put a/x: "type" gives the Content-Type' cache put a/x /dev/null header 'Content-type: x'
refuses 2 'cannot put a/x: a header has a control character' cache put a/x /dev/null header $'X: y\tz'
refuses 2 'cannot change the lifetime of a/x: the new one is missing' cache ttl a/x
refuses 2 'cannot change the lifetime of a/x: lifetime 0: what does not expire is "never"' cache ttl a/x 0
refuses 2 'cannot explain who answers: the URL is missing' cache explain
refuses 2 'cannot explain who answers a/x: method needs a value' cache explain a/x method
refuses 2 'cannot explain who answers a/x: method A B is not one word' cache explain a/x method 'A B'
refuses 2 'cannot explain who answers a/x: header Cookie is not like '"'Name: value'" cache explain a/x header Cookie
refuses 2 'cannot explain who answers a/x: ttl is not an argument of this command; try "help" in its place' \
	cache explain a/x ttl 1s
refuses 2 'cannot delete an object: its URL is missing' cache del --strict
refuses 2 'cannot delete an object: b has no path' cache del a/x b
refuses 2 'cannot flush the cache: now is not an argument of this command; try "help" in its place' cache flush now
refuses 2 'cannot rebalance: --within 101 is not between 0 and 100' rebalance --within 101
refuses 2 'cannot rebalance: --by luck is not connections or load' rebalance --by luck
refuses 2 'cannot rebalance: --idle 9 is not between 10 and 86400000' rebalance --idle 9
refuses 2 'cannot rebalance: --max 0 is not between 1 and 4294967295' rebalance --max 0
refuses 2 'cannot rebalance: --service needs a value' rebalance --dry-run --service
refuses 2 'cannot rebalance: be1 is not an argument of this command; try "help" in its place' rebalance be1
refuses 2 'there is no object nod; try "flotilla help"' nod
refuses 2 'node has no command ad; try "flotilla node help"' node ad
refuses 2 \
	'cannot show the counters: nonsense is not an argument of this command; try "help" in its place' \
	stats nonsense
refuses 2 '-j and -t exclude each other' -j -t node
refuses 1 'cannot read /nonexistent/batch: No such file or directory' -b /nonexistent/batch

prints 'help of the program names every object' '^  monitor ' help
prints 'help of an object' '^Usage: flotilla node show' node help
prints 'help of an object, the other way round' '^Usage: flotilla node show' help node
prints 'help of a command' '^Usage: flotilla policy set' policy set help
prints 'version' '^flotilla [0-9.]*, generic netlink family version 1$' -V
prints 'version as JSON' '^{"version":"[0-9.]*","uapi":1}$' -j -V

for object in node local service auth conn stats top policy explain doctor probe monitor afpa cache save apply process rebalance; do
	grep -q "^\.Ss $object\$" "$top/tools/flotilla/flotilla.8"
	result $? "the manual page has a section on $object"
done

batch=$(mktemp)
at_exit rm -f "$batch"
printf '# nothing\n\nhelp node # said twice\nnode add be1 address nowhere\nhelp\n' >"$batch"
seen=$(flotilla -b "$batch" 2>&1)
code=$?
[ $code = 2 ] && [ "$(tail -1 <<<"$seen")" = \
	"flotilla: $batch:4: cannot add node be1: address nowhere is not an address" ]
result $? 'a batch ends at the line that is wrong, and says which' "status $code: $seen"

seen=$(printf 'help\n' | flotilla -b - 2>&1)
result $? 'a batch comes from standard input' "$seen"

flotilla help >/dev/full 2>/dev/null
[ $? = 1 ]
result $? 'an answer that cannot be written is a failure'

if [ ! -e /sys/module/flotilla ]; then
	refuses 1 'cannot show the nodes: flotilla.ko is not loaded (modprobe flotilla)' node
	refuses 1 'cannot save: flotilla.ko is not loaded (modprobe flotilla)' save
	refuses 1 'cannot examine this node: flotilla.ko is not loaded (modprobe flotilla)' doctor
	printf 'local name fe address 10.0.0.1\n' >"$batch"
	refuses 1 "cannot apply $batch: flotilla.ko is not loaded (modprobe flotilla)" apply "$batch"
	refuses 1 'cannot watch for events: flotilla.ko is not loaded (modprobe flotilla)' monitor
	refuses 1 \
		'cannot set the policy: flotilla.ko is not loaded, or /sys shows another network namespace' \
		policy set wrr
	flotilla probe flotilla >/dev/null
	[ $? = 1 ]
	result $? 'probe of a named thing that is not there fails'
fi
if [ ! -e /dev/afpa ]; then
	refuses 1 'cannot list the objects: afpa.ko is not loaded (modprobe afpa)' cache
	refuses 1 'cannot put a/x: afpa.ko is not loaded (modprobe afpa)' cache put a/x /dev/null
	refuses 1 'cannot show the sites: afpa.ko is not loaded (modprobe afpa)' afpa site
fi
flotilla -j probe | python3 -c 'import json, sys
rows = json.load(sys.stdin)
assert all(r["available"] in ("yes", "no", "unknown") and r["reason"] for r in rows), rows'
result $? 'every probe gives a verdict and a reason, in JSON'

# In a /run of its own.
apart=-rm
[ "$EUID" != 0 ] || apart=-m
# shellcheck disable=SC2016 # expanded by the inner shell
seen=$(timeout 60 unshare $apart bash -c 'mount -t tmpfs none /run && mkdir /run/flotilla && exec python3 -c "$1"' - '
import errno, socket, subprocess, sys
path, waiting, code = "/run/flotilla/lardd.sock", [], 0
frozen = socket.socket(socket.AF_UNIX)
frozen.bind(path)
frozen.listen(1)
while code != errno.EAGAIN:
    waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
    code = waiting[-1].connect_ex(path)
sys.exit(subprocess.run(["flotilla", "probe", "lardd"], timeout=20).returncode)' 2>&1)
[ $? = 1 ] && grep -q 'does not answer' <<<"$seen"
result $? 'the probe does not wait for a frozen lardd' "$seen"

complete_for()	# words of the line, the last is the one being completed
{
	# shellcheck disable=SC2016 # expanded by the inner shell
	bash --norc -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _flotilla
		echo "${COMPREPLY[*]}"' - "$top/tools/flotilla/flotilla.bash" "$@"
}
seen=$(complete_for flotilla -j po)
[ "$seen" = policy ]
result $? 'an object completes' "$seen"
seen=$(complete_for flotilla '' | tr ' ' '\n' | sort | paste -sd' ')
wanted=$({ flotilla help | sed -n '/^Objects:/,/^$/s/^  \([a-z]*\) .*/\1/p'; echo help; } | sort | paste -sd' ')
[ "$seen" = "$wanted" ] && [ "${#wanted}" -gt 100 ]
result $? 'all objects complete that help names' "$seen, not $wanted"
seen=$(complete_for flotilla node add be1 address 10.0.0.3 role b)
[ "$seen" = backend ]
result $? 'an argument value completes' "$seen"
seen=$(complete_for flotilla policy set lar)
[ "$seen" = 'lard lard/r' ]
result $? 'a policy completes' "$seen"
seen=$(complete_for flotilla top --)
[ "$seen" = --once ]
result $? 'an option of top completes' "$seen"

seen=$(complete_for flotilla cache put a/x y.html t)
[ "$seen" = 'type ttl tag' ]
result $? 'an argument of cache put completes' "$seen"
seen=$(complete_for flotilla afpa set mode s)
[ "$seen" = softirq ]
result $? 'a mode of afpa completes' "$seen"
seen=$(complete_for flotilla afpa site add 0.0.0.0:1 protocol m)
[ "$seen" = memcached ]
result $? 'a protocol of a site completes' "$seen"

seen=$(complete_for flotilla rebalance --wi)
[ "$seen" = --within ]
result $? 'an option of rebalance completes' "$seen"
seen=$(complete_for flotilla rebalance --by l)
[ "$seen" = load ]
result $? 'what rebalance counts completes' "$seen"

seen=$(complete_for flotilla apply --d)
[ "$seen" = --dry-run ]
result $? 'an option of apply completes' "$seen"

# Who asked for a path that is cached, or named a file, must not run commands by our TAB, nor by the line that it makes.
mkdir "$keys/bin" "$keys/files"
cat >"$keys/bin/flotilla" <<-'end'
	#!/bin/sh
	printf '10.0.0.1:80\th.test\t/a$(touch$IFS"$MARK")`touch$IFS"$MARK"`;true*\t1\n'
end
chmod +x "$keys/bin/flotilla"
hostile() {
	(cd "$keys/files" && PATH=$keys/bin:$PATH MARK=$keys/mark complete_for "$@" 2>&1)
}
seen=$(hostile flotilla cache del h)
refuse "a path of the cache is not run when it is completed" test -e "$keys/mark"
# shellcheck disable=SC2016 # as it is
equal "and not by the line either" 'h.test/a$(touch$IFS"$MARK")`touch$IFS"$MARK"`;true*' "$(eval "printf %s $seen")"
# shellcheck disable=SC2016 # as it is
touch "$keys/files/"'a$(touch ..$(printf "\x2f")mark)'
# shellcheck disable=SC2016 # as it is
begin='a$(touch'
for line in "apply a" "auth key a" "-b a" "cache put x a"; do
	# shellcheck disable=SC2086 # words
	seen=$(hostile flotilla $line)
	claim "a name of a file is one for: $line" "$([[ $seen == "$begin"* ]]; echo $?)" "$seen"
done
refuse "and nothing that is run" test -e "$keys/mark"

finish
