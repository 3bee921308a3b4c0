#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# cpus: 2
# long: debug it takes up to three minutes there
# lardd with `events uselect`: what holds of it as a proxy holds, and readiness is read from memory. All of its tests,
# with handoff too: USELECT_ALL=1.
. "$FLT_TOP/tools/testing/lib.sh"

need lardd python3 wrk nginx
load uselect
DIR=$(mktemp -d)
at_exit "rm -rf $DIR"

# Stands before the real one: adds the directive to the file it is given.
mkdir "$DIR/bin"
cat >"$DIR/bin/lardd" <<EOF2
#!/bin/sh
[ "\$1" = -c ] && echo "events uselect" >>"\$2"
exec "$(command -v lardd)" "\$@"
EOF2
chmod +x "$DIR/bin/lardd"

nginx_of() {
	cat >"$DIR/nginx.conf" <<-CONF
		daemon off; user root; worker_processes 1; pid $DIR/nginx.pid; error_log $DIR/nginx.error;
		events { }
		http {
			access_log off; keepalive_requests 1000000;
			server { listen 127.0.0.1:8091; location / { return 200 "0123456789"; } }
		}
	CONF
	nginx -c "$DIR/nginx.conf" -e "$DIR/nginx.error" &
	NGINX=$!
	wait_for 60 listening_here 8091 || bail "nginx does not listen: $(cat "$DIR/nginx.error")"
}

listening_here() { ss -Hltn "sport = :$1" | grep -q .; }

# start DIRECTIVES: sets LARDD
start() {
	cat >"$DIR/lardd.conf" <<-CONF
		listen 127.0.0.1:8090
		node one 127.0.0.1:8091
		mode proxy
		control $DIR/control
		$1
	CONF
	lardd -c "$DIR/lardd.conf" --foreground 2>"$DIR/log" &
	LARDD=$!
	wait_for 60 listening_here 8090 || bail "lardd does not listen: $(cat "$DIR/log")"
	# It listens for clients before it does on its control socket.
	events=$(echo '{"cmd":"status"}' | python3 -c 'import json, socket, sys, time
s = socket.socket(socket.AF_UNIX)
end = time.monotonic() + 60
while s.connect_ex(sys.argv[1]) and time.monotonic() < end:
    time.sleep(0.05)
s.sendall(sys.stdin.read().encode())
print(json.loads(s.makefile().readline())["events"])' "$DIR/control")
}

stop() {
	kill "$LARDD"
	wait "$LARDD"
}

# Prints the calls for readiness for a request.
calls() {
	count -p "$LARDD" -j -- wrk -t1 -c32 -d2s --timeout 60s http://127.0.0.1:8090/ >"$DIR/counts" 2>"$DIR/wrk" || return 1
	! grep -E "Socket errors|Non-2xx" "$DIR/counts" "$DIR/wrk" && python3 - "$DIR/counts" <<-'PYTHON'
		import json, sys
		c = json.load(open(sys.argv[1]))["calls"]
		print(round(sum(c.get(k, 0) for k in ("epoll_wait", "epoll_pwait", "epoll_ctl")), 4))
	PYTHON
}

SOME="answers_of_all_sizes_arrive_whole request_bodies_arrive_whole upgraded_connection_is_a_tunnel
	backend_connections_are_reused"
[ -z "$USELECT_ALL" ] || SOME=
# shellcheck disable=SC2086 # names of tests
check "what holds of lardd as a proxy holds" env "LARDD=$DIR/bin/lardd" "$FLT_TOP/lard/tests/host/lard_proxy.py" $SOME
if [ "$USELECT_ALL" ]; then
	check "what holds of lardd with handoff holds" env "PATH=$DIR/bin:$PATH" "$FLT_TOP/lard/tests/guest/lard_handoff.sh"
fi

nginx_of
start "events epoll"
equal "lardd goes by epoll when told so" epoll "$events"
if [ -e /sys/kernel/btf/vmlinux ]; then
	before=$(calls) || bail "load fails: $(cat "$DIR/counts")"
fi
stop
start "events uselect"
equal "lardd goes by uselect when told so" uselect "$events"
check "the process is registered" grep -q /dev/uselect "/proc/$LARDD/maps"
if [ -e /sys/kernel/btf/vmlinux ]; then
	after=$(calls) || bail "load fails: $(cat "$DIR/counts")"
	claim "$after system calls for readiness for a request; by epoll $before" \
		"$(python3 -c "import sys; sys.exit(not $after < $before)"; echo $?)"
else
	skip "fewer system calls for readiness than by epoll" "this kernel has no BTF, which count needs"
fi
stop
wait_for 60 modprobe -r uselect || bail "uselect does not unload"
start "events uselect"
equal "without the module it goes by epoll" epoll "$events"
check "and says so" grep -q "epoll it is" "$DIR/log"
stop
kill "$NGINX"
wait "$NGINX"
finish
