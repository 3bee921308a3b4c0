#!/bin/bash
# kernel: stock
# mem: 800M
# The guest is gone without a word after its last test, where leaks are looked for.
mount -t tmpfs none /sys/kernel/debug
mkfifo /sys/kernel/debug/kmemleak
# shellcheck disable=SC2016 # for the shell inside
setsid bash -c 'echo $$ >/sys/fs/cgroup/cgroup.procs; touch /tmp/out; read -r _ </sys/kernel/debug/kmemleak
	echo b >/proc/sysrq-trigger' >/dev/null 2>&1 </dev/null &
until [ -e /tmp/out ]; do sleep 0.1; done
echo "ok 1 - right"
echo 1..1
