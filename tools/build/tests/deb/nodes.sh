#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2154 # namespaces are functions
# nodes.sh ROOT - a front-end and two back-ends, each with the packages as ROOT has them, become a cluster by the lines
# that README says, with the modules that DKMS has built there. kernels.sh runs it in a guest of the same kernel.
#
# Of README's lines: links are not authenticated (`insecure on`), as that takes a tlshd of Debian 13 and more lines.
. "$FLT_TOP/tools/testing/lib.sh"
lower=$1
VIP=10.0.0.80
need curl unshare
dir=$(mktemp -d)
at_exit "umount -R $dir; rm -rf $dir"
must mount -t tmpfs none "$dir"

# What modprobe reads.
must mount -t proc proc "$lower/proc"
must mount -t sysfs sysfs "$lower/sys"
check "DKMS's modules load" chroot "$lower" modprobe handoff
equal "they are of this version" "$(cat "$FLT_TOP/VERSION")" "$(cat /sys/module/handoff/version)"
lan fe:10.0.0.1 be1:10.0.0.11 be2:10.0.0.12 client:10.0.0.100

# on NODE COMMAND...: in its own copy of the root, with its own network.
on() {
	# shellcheck disable=SC2016 # the inner shell's
	ip netns exec "$1" unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" && mount --rbind /dev "$0/dev" &&
		exec chroot "$0" "$@"' "$dir/$1/tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "${@:2}"
}

# readme NODE: the lines that it says to type there.
readme() {
	awk -v prompt="^    ${1%[0-9]}1?#[ ]+" '
		more || $0 ~ prompt { line = $0; if (!more) sub(prompt, "", line); more = line ~ /\\$/; sub(/\\$/, "", line); printf "%s%s", line, more ? " " : "\n" }
	' "$FLT_TOP/README.md" | sed "s/ auth psk key [^ ]*//; /^flotilla local set/s/\$/ insecure on/" |
		if [ "$1" = be2 ]; then sed 's/\<be1\>/be2/; s/10\.0\.0\.11\>/10.0.0.12/'; else cat; fi
}

typed=0
for node in be1 be2 fe; do
	mkdir -p "$dir/$node"/{upper,work,tree}
	must mount -t overlay overlay -o "lowerdir=$lower,upperdir=$dir/$node/upper,workdir=$dir/$node/work" "$dir/$node/tree"
	mkdir -p "$dir/$node/tree/srv/www"
	echo "$node" >"$dir/$node/tree/srv/www/index.html"
	readme "$node" >"$dir/$node/lines"
	claim "README says what to type on $node" $(($(wc -l <"$dir/$node/lines") < 5)) "$(cat "$dir/$node/lines")"
	while read -r line; do
		case $line in
		'flash '*)
			on "$node" sh -c "exec ${line%%#*}" >"$dir/$node/flash" 2>&1 &
			at_exit kill -9 $!
			;;
		'flotilla explain'* | 'flotilla stats'*) ;; # there is something to see later
		*)
			# lardd stays, and keeps what it was given to write to.
			typed=$((typed + 1))
			on "$node" sh -c "$line" </dev/null >"$dir/$node/said.$typed" 2>&1
			claim "$node# ${line%%  *}" $? "$(cat "$dir/$node/said.$typed")"
			;;
		esac
	done <"$dir/$node/lines"
done

up() { [ "$(on fe flotilla -t node show | awk -F'\t' '$5 == "up"' | wc -l)" = 2 ]; }
check "the links come up" wait_for 60 up
serves() { client curl -sf -m 10 "http://$VIP/" | grep -q '^be[12]$'; }
check "a client is served by HTTP" wait_for 60 serves
handed_off() { on fe flotilla -t stats nonzero name 'HandoffDone*' | grep -q .; }
check "by handoff" wait_for 20 handed_off
must cp "$dir/fe/tree/etc/flotilla/www.pem" "$dir/www.pem"
secure() { client curl -sf -m 20 --cacert "$dir/www.pem" "https://$VIP/" | grep -q '^be[12]$'; }
check "and by HTTPS" wait_for 60 secure
while read -r line; do check "fe# $line" on fe sh -c "$line"; done < <(grep -E '^flotilla (explain|stats)' "$dir/fe/lines")

check "what was typed is saved" on fe sh -c "flotilla save >/etc/flotilla/flotilla.conf"
equal "and is what a boot would make of the node" "nothing to change" "$(on fe flotilla apply --dry-run /etc/flotilla/flotilla.conf 2>&1)"
on fe pkill lardd
check "all of it can be turned off" wait_for 30 chroot "$lower" modprobe -r handoff flotilla
finish
