#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
# Each script of bench/ explains itself, and refuses what it cannot do before it starts anything.
. "$FLT_TOP/tools/testing/lib.sh"
cd "$FLT_TOP" || bail "no $FLT_TOP"

explains() {
	timeout 120 "$1" --help 2>&1 | grep -q '^usage: '
	claim "$1 explains itself" $?
}

# SCRIPT ARGUMENTS...: exit status 2 and a sentence
refuses() {
	local said status
	said=$(timeout 120 "$@" 2>&1)
	status=$?
	[ $status = 2 ] && [[ $said == *"error: "* ]]
	claim "refused: $*" $? "status $status: $said"
}

for script in bench/flash/{breakdown,calls,clients,disk-bound,profile} bench/cluster/model bench/pathlen/{servers,front-ends,crowd} bench/lardsim/run bench/flood/run; do
	explains "$script"
	refuses "$script" --nonsense
done
refuses bench/flash/calls --requests 0
refuses bench/flash/calls apache
refuses bench/flash/disk-bound --regime floppy
refuses bench/flash/disk-bound --server apache
refuses bench/flash/clients apache
refuses bench/flash/clients --clients 0
refuses bench/flash/breakdown --way fast
refuses bench/cluster/model --nodes 9
refuses bench/pathlen/servers iis
refuses bench/pathlen/servers --tap haproxy
refuses bench/pathlen/servers --connections 0
refuses bench/pathlen/front-ends --tls ipvs
refuses bench/pathlen/front-ends tls-nginx
refuses bench/pathlen/front-ends --count back-end xdp
refuses bench/pathlen/front-ends --tls tls-direct
refuses bench/pathlen/crowd iis
refuses bench/pathlen/front-ends --case nowhere
refuses bench/pathlen/front-ends --tickets off
refuses bench/pathlen/front-ends --tls --tickets few
refuses bench/flood/run drowned
finish
