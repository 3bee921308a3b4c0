# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# The client of the end-to-end test: asks, and checks every body by its hash.
. "$FLT_TOP/tools/testing/e2e/common.sh"

await fe 240 || bail "the front-end is not there"
declare -A hash nodes
for name in "${!SIZE[@]}"; do
	hash[$name]=$(body "$name" | sha256sum)
done
connections=0
bytes=0
wrong=

# fetch NAME: over a connection of its own.
fetch() {
	local got
	got=$(curl -s -m 60 -D /tmp/head "http://$SERVICE/$1" | sha256sum)
	[ "$got" = "${hash[$1]}" ] || wrong+=" $1"
	node=$(awk 'tolower($1) == "x-node:" { print $2 }' /tmp/head | tr -d '\r')
	nodes[${node:-nobody}]=$((${nodes[${node:-nobody}]:-0} + 1))
	connections=$((connections + 1))
	bytes=$((bytes + SIZE[$1]))
}

for round in 1 2 3 4 5 6 7 8; do
	fetch small
	fetch middle
	[ $((round % 4)) != 0 ] || fetch large
done
equal "every body arrived with its hash" "" "$wrong"
[ "${nodes[be1]:-0}" -gt 0 ] && [ "${nodes[be2]:-0}" -gt 0 ] && [ -z "${nodes[nobody]:-}" ]
claim "nginx and flash both answered" $? "$(declare -p nodes)"

got=$(curl -s -m 60 "http://$SERVICE/small" "http://$SERVICE/middle" "http://$SERVICE/small" | sha256sum)
equal "three requests on one connection" \
	"$({ body small; body middle; body small; } | sha256sum)" "$got"
connections=$((connections + 1))
bytes=$((bytes + 2 * SIZE[small] + SIZE[middle]))

# A connection that stays open between two requests, for as long as the front-end looks at it.
exec 3<>"/dev/tcp/$SERVICE/80"
printf 'GET /small HTTP/1.1\r\nHost: %s\r\n\r\n' "$SERVICE" >&3
IFS= read -r -t 60 _ <&3
seen=$(ss -Htino state established "dport = :80")
for option in ' ts ' ' sack ' ' wscale:'; do
	grep -q -- "$option" <<<"$seen "
	claim "the moved connection still has$option" $? "$seen"
done
announce downloading
await seen 150
exec 3>&-
connections=$((connections + 1))
bytes=$((bytes + SIZE[small]))

curl -s -m 60 --limit-rate 400k "http://$SERVICE/large" | sha256sum >/tmp/slow
equal "a slow download is whole" "${hash[large]}" "$(cat /tmp/slow)"
connections=$((connections + 1))
bytes=$((bytes + SIZE[large]))
timestamps_are_right
echo $connections >"$FLT_RESULTS/connections"
echo $bytes >"$FLT_RESULTS/bytes"
finish
