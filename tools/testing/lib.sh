# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Helpers for shell tests in guests: TAP, network namespaces, waiting for states.
#
#	. "$FLT_TOP/tools/testing/lib.sh"
#	lan fe:10.0.0.1 be1:10.0.0.2 client:10.0.0.100	# namespaces on one segment, functions fe, be1, client
#	fe ip route add ...				# run in a namespace
#	holds be1 10.0.0.200				# the address of a service
#	check "the client reaches the front-end" client ping -c1 10.0.0.1
#	finish						# prints the plan; exit status for the runner
#
# Everything made here is removed at exit. Functions that end the test say why.

_points=0
_failed=0
_namespaces=()

# claim NAME STATUS [DETAIL]: one TAP point.
claim() {
	_points=$((_points + 1))
	if [ "$2" = 0 ]; then
		echo "ok $_points - $1"
	else
		_failed=$((_failed + 1))
		echo "not ok $_points - $1"
		[ -z "${3:-}" ] || printf '%s\n' "$3" | sed 's/^/# /'
	fi
}

# check NAME COMMAND...: the claim holds when the command succeeds; its output is shown when it does not.
check() {
	local name=$1 output status
	shift
	output=$("$@" 2>&1)
	status=$?
	claim "$name" $status "$* -> status $status"$'\n'"$output"
}

# refuse NAME COMMAND...: the claim holds when the command fails.
refuse() {
	local name=$1 output
	shift
	if output=$("$@" 2>&1); then
		claim "$name" 1 "$* should have failed"$'\n'"$output"
	else
		claim "$name" 0
	fi
}

# equal NAME EXPECTED ACTUAL
equal() {
	[ "$2" = "$3" ]
	claim "$1" $? "expected '$2', got '$3'"
}

skip() {
	_points=$((_points + 1))
	echo "ok $_points - $1 # SKIP $2"
}

skip_all() {
	_ended=1
	echo "1..0 # SKIP $*"
	exit 4
}

bail() {
	_ended=1
	printf '%s\n' "$*" | sed 's/^/# /'
	echo "not ok $((_points + 1)) - set-up: $(head -n1 <<<"$*")"
	echo "1..$((_points + 1))"
	exit 1
}

# turn: whether what follows runs in this slice. Only in tests with the line `cut: yes`, whose parts it divides.
_turns=0
turn() {
	_turns=$((_turns + 1))
	[ -z "${FLOTILLA_CLAIMS:-}" ] ||
		[ $(((_turns - 1) % ${FLOTILLA_CLAIMS#*/})) = $((${FLOTILLA_CLAIMS%/*} - 1)) ]
}

finish() {
	[ $_points != 0 ] || [ -z "${FLOTILLA_CLAIMS:-}" ] || skip_all "none of its parts is in slice $FLOTILLA_CLAIMS"
	_ended=1
	echo "1..$_points"
	exit $((_failed != 0))
}

# need PROGRAM...: what `make deps` installs; a test that is not run for want of it is not passed.
need() {
	local program
	for program; do
		command -v "$program" >/dev/null || bail "$program is not installed: make deps"
	done
}

load() {
	local module
	for module; do
		modprobe "$module" || bail "cannot load $module"
	done
}

# What takes a second on the stock kernel may take so many on this one.
case ${FLT_KIND:-stock} in
stock | newest) slow=1 ;;
*) slow=3 ;;
esac

# wait_for SECONDS COMMAND...: poll until it succeeds; three times as long on the debug kernel.
wait_for() {
	local end=$((SECONDS + $1 * slow))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# must COMMAND...: set-up that has to work.
must() {
	local output
	output=$("$@" 2>&1) || bail "$*: $output"
}

# namespace NAME...: a network namespace and a function of its name that runs commands in it.
namespace() {
	local ns
	for ns; do
		must ip netns add "$ns"
		_namespaces+=("$ns")
		must ip -n "$ns" link set lo up
		eval "$ns() { ip netns exec $ns \"\$@\"; }"
	done
}

# lan NAME:ADDRESS...: namespaces on one Ethernet segment, each with eth0. IPv4 is /24, IPv6 /64.
lan() {
	local member ns address
	if ! ip netns list | grep -qw _switch; then
		namespace _switch
		must _switch ip link add br0 type bridge forward_delay 0
		must _switch ip link set br0 up
	fi
	for member; do
		ns=${member%%:*} address=${member#*:}
		namespace "$ns"
		must _switch ip link add "$ns" type veth peer name eth0 netns "$ns"
		must _switch ip link set "$ns" master br0 up
		case $address in
		*:*) must ip -n "$ns" addr add "$address/64" dev eth0 nodad ;;
		*) must ip -n "$ns" addr add "$address/24" dev eth0 ;;
		esac
		must ip -n "$ns" link set eth0 up
	done
	for member; do
		ns=${member%%:*}
		wait_for 10 carrier "$ns" || bail "no carrier in $ns"
	done
}

# holds NAMESPACE ADDRESS: a back-end has the address of a service without saying so on the segment.
holds() {
	must "$1" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
		net.ipv4.conf.eth0.rp_filter=0 net.ipv4.conf.all.rp_filter=0
	must "$1" ip addr add "$2/32" dev lo
}

carrier() {
	[ "$(ip netns exec "$1" cat /sys/class/net/eth0/operstate)" = up ]
}

# listening NAMESPACE PORT: something accepts TCP connections there.
listening() {
	ip netns exec "$1" ss -Hltn "sport = :$2" | grep -q .
}

# at_exit COMMAND...: before the namespaces go, last one first.
_at_exit=()
at_exit() {
	_at_exit=("$*" "${_at_exit[@]}")
}

_ended=
_clean() {
	local item pids
	# A script that fell off its end has not said what is missing. In a role of a cluster there is nothing to say.
	[ -n "$_ended" ] || [ -n "${FLT_ROLE:-}" ] || echo "Bail out! the script ended before its finish"
	for item in "${_at_exit[@]}"; do
		eval "$item" >/dev/null 2>&1
	done
	for item in "${_namespaces[@]}"; do
		pids=$(ip netns pids "$item" 2>/dev/null)
		# shellcheck disable=SC2086 # one word each
		[ -z "$pids" ] || kill -9 $pids 2>/dev/null
		ip netns del "$item" 2>/dev/null
	done
}
trap _clean EXIT

# announce WORD, await WORD SECONDS: between the guests of tools/vm/cluster.
announce() {
	touch "$FLT_RESULTS/said.$1"
}

await() {
	wait_for "$2" test -e "$FLT_RESULTS/said.$1"
}
