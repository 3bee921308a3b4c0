#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# A guest is a command: same status, same output, and the host's files stay as they are.
. "$FLT_TOP/tools/testing/lib.sh"

guest=$FLT_TOP/tools/vm/guest
work=$(mktemp -d "$FLT_TOP/build/vm_guest.XXXXXX")
at_exit rm -rf "$work"
version=$(cat /etc/debian_version)

# One boot for most claims.
"$guest" --results "$work/results" --env COLOUR='dark "red"' -- bash -c "
	echo 'to stderr' >&2
	seq 1 200000
	echo \"\$COLOUR\" >\$FLT_RESULTS/colour
	echo after >/etc/debian_version; cp /etc/debian_version \$FLT_RESULTS/file
	touch /etc/flotilla-was-here
	touch '$FLT_TOP/Makefile' 2>/dev/null || echo refused >\$FLT_RESULTS/tree
	modprobe loop && echo loaded >\$FLT_RESULTS/modprobe
	stat -f -c %T /tmp >\$FLT_RESULTS/tmp
	readlink /dev/fd >\$FLT_RESULTS/fd
	exit 93" >"$work/out" 2>"$work/err"
equal "the exit status is the command's" 93 $?
equal "1.3 MB of output come through whole" "$(seq 1 200000 | sha256sum)" "$(sha256sum <"$work/out")"
equal "stderr is kept apart" "to stderr" "$(cat "$work/err")"
equal "environment reaches the command" 'dark "red"' "$(cat "$work/results/colour")"
equal "the guest has its own modules" loaded "$(cat "$work/results/modprobe")"
equal "/tmp is in memory" tmpfs "$(cat "$work/results/tmp")"
equal "/dev/fd is there" /proc/self/fd "$(cat "$work/results/fd")"
equal "the guest may write over the host's file" after "$(cat "$work/results/file")"
equal "the host's file does not change" "$version" "$(cat /etc/debian_version)"
equal "the built tree is read-only" refused "$(cat "$work/results/tree")"
refuse "nothing is made on the host" test -e /etc/flotilla-was-here

"$guest" --timeout 12 -- sleep 1000 >"$work/out" 2>"$work/err"
equal "a time-out is status 124" 124 $?
"$guest" -- bash -c 'echo c >/proc/sysrq-trigger' >"$work/out" 2>"$work/err"
crashed=$?
[ $crashed -eq 125 ] || cat "$work/err"
equal "a kernel report is status 125" 125 $crashed
check "and is shown" grep -q 'sysrq triggered crash' "$work/err"
"$guest" --allow-reports -- bash -c 'echo c >/proc/sysrq-trigger' >"$work/out" 2>"$work/err"
equal "a dead guest is status 126" 126 $?
# A QEMU that is gone at once the first time, at each start, when its arguments are wrong.
mkdir "$work/bin"
cat >"$work/bin/qemu-system-x86_64" <<-'end'
	#!/bin/bash
	echo . >>"${0%/*}/starts"
	[ "$(wc -l <"${0%/*}/starts")" -gt "${QEMU_DEATHS:-0}" ] || exit "${QEMU_STATUS:-0}"
	PATH=${PATH#*:} exec qemu-system-x86_64 "$@"
end
chmod +x "$work/bin/qemu-system-x86_64"
"$guest" -- true # The answer to "does KVM work" is cached.
deaths() { # how many, QEMU's status
	rm -f "$work/bin/starts"
	: >"$work/boots"
	FLOTILLA_BOOTS=$work/boots PATH=$work/bin:$PATH QEMU_DEATHS=$1 QEMU_STATUS=$2 "$guest" -- bash -c 'exit 94' >"$work/out" 2>"$work/err"
	echo "$? after $(wc -l <"$work/bin/starts")"
}
equal "one that was gone before its command began is started once more" "94 after 2" "$(deaths 1 0)"
equal "and that is written down" "stock guest: gone before its command began" "$(cat "$work/boots")"
equal "but once only" "126 after 2" "$(deaths 9 0)"
equal "and not when QEMU refused to start" "126 after 1" "$(deaths 9 1)"
"$guest" --log "$work/console" -- bash -c 'echo up; sleep 1000' >"$work/out" 2>"$work/err" &
until [ -s "$work/out" ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
kill -USR1 $!
wait $!
# Any that slept: at the instant of the NMI one or two may be running.
slept() {
	grep -q 'task:[^ ]* *state:S' "$work/console" || { tail -n 40 "$work/console"; return 1; }
}
check "one that fell silent says on SIGUSR1 where its tasks stood" slept
check "and where its CPUs stood" grep -q '^RIP=' "$work/console.silent"
# shellcheck disable=SC2016 # the guest's shell expands it
"$guest" --cpus 1 -- bash -c 'exit $(nproc)' </dev/null
equal "one CPU when asked" 1 $?
finish
