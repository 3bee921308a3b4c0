# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# What the guests of the end-to-end test have in common. $FLT_ROLE says which one this is.
. "$FLT_TOP/tools/testing/lib.sh"

# shellcheck disable=SC2034 # the roles use it
SERVICE=10.77.0.80
declare -A SIZE=([small]=1000 [middle]=70000 [large]=1000000)

# body NAME: the bytes of that document, the same in every guest.
body() {
	seq 1 200000 | head -c "${SIZE[$1]}"
}

address_of() {
	awk -v name="$1" '$2 == name { print $1 }' /etc/hosts
}

# counter NAME: of the room handoff.
counter() {
	flotilla -t stats show name "$1" | cut -f3
}

# Two kernels have two clocks and two secrets: a timestamp or sequence number that was not carried
# over would be dropped here, and counted.
timestamps_are_right() {
	local name value
	for name in TcpExtPAWSEstab TcpExtPAWSActive TcpExtTCPACKSkippedPAWS; do
		value=$(nstat -asz "$name" | awk -v name="$name" '$1 == name { print $2 }')
		equal "$FLT_ROLE: $name stays 0" 0 "$value"
	done
}

is_up() {
	[ "$(flotilla -t node show "$1" | cut -f5)" = up ]
}
