#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh SERVER[-busy] [ORIGIN]: in the counted guest, start a server on port 8080 as its own documentation
# says is fast, and answer snapshots on port 8090 until told to quit. -busy: beside a program that computes.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
www=/run/www
state=/run/etc
mkdir -p $www $state
# shellcheck source=bench/pathlen/certificate.sh
. "$here/certificate.sh"
for size in 64 1024 8192 65536; do
	head -c $size /dev/zero | tr '\0' x >$www/f$size
done

# What is behind the port, what more is to be said, another port, another directory.
nginx_conf() {
	cat <<-END
	worker_processes 1;
	user root;
	worker_rlimit_nofile 20000;
	pid /run/nginx.pid;
	error_log /run/nginx.error;
	events { worker_connections 16384; }
	http {
		access_log off;
		sendfile on;
		tcp_nopush on;
		keepalive_requests 100000000;
		keepalive_timeout 600s;
		open_file_cache max=10000 inactive=600s;
		open_file_cache_valid 600s;
		server { listen ${3:-8080} ${1:-} backlog=4096; root ${4:-$www}; ${2:-} }
	}
	END
}

haproxy_conf() {
	cat <<-END
	global
		nbthread 1
		maxconn 4096
	defaults
		mode http
		timeout connect 60s
		timeout client 600s
		timeout server 600s
		http-reuse always
	listen proxy
		bind :8080 backlog 4096
		server origin ${1:?haproxy needs the origin} maxconn 4096
	END
}

lighttpd_conf() {
	cat <<-END
	server.port = 8080
	server.document-root = "$www"
	server.max-keep-alive-requests = 65535
	server.max-keep-alive-idle = 600
	server.max-fds = 20000
	# Without a type it would leave out the validators that the others send.
	mimetype.assign = ( "" => "application/octet-stream" )
	END
}

apache_conf() {
	cat <<-END
	ServerRoot /run
	ServerName localhost
	PidFile /run/apache.pid
	ErrorLog /run/apache.error
	LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
	LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
	Listen 8080
	ListenBacklog 4096
	User nobody
	Group nogroup
	StartServers 1
	ServerLimit 1
	ThreadsPerChild 64
	MaxRequestWorkers 64
	MaxConnectionsPerChild 0
	KeepAlive On
	MaxKeepAliveRequests 0
	KeepAliveTimeout 600
	EnableSendfile $1
	DocumentRoot $www
	<Directory $www>
		AllowOverride None
		Options FollowSymLinks
		Require all granted
	</Directory>
	END
}

# Not all of them return when they listen.
listening() {
	local i
	for ((i = 0; i < 600; i++)); do
		ss -Hltn 'sport = :8080' | grep -q . && return
		sleep 0.2
	done
	echo "guest.sh: nobody listens" >&2
	return 1
}

nginx_start() {
	nginx_conf "$@" >/run/etc/nginx.conf
	nginx -c /run/etc/nginx.conf -e /run/nginx.error
}

nginx_tls() {
	secured
	nginx_start ssl "ssl_certificate $state/chain; ssl_certificate_key $state/key; ssl_protocols TLSv1.3; $*"
}

# The kernel answers. The server behind it, which is started by what follows, has no files, so a request that comes to
# it ends the load by a 404. Headers that nginx sends of a file are in the objects, too.
none=/run/none
afpa_before() {
	mkdir $none
	"$@"
	listening
	modprobe afpa
	flotilla afpa site add 0.0.0.0:8080
}

afpa_start() {
	local size
	afpa_before "$@"
	for size in 64 1024 8192 65536; do
		flotilla cache put "*:8080/f$size" $www/f$size type application/octet-stream \
			header 'Server: nginx/1.22.1' header 'Last-Modified: Sat, 01 Nov 2025 10:00:00 GMT' \
			header 'ETag: "6905dba0-10000"' header 'Accept-Ranges: bytes'
	done
}

# Pages that a program makes, which takes it 10 ms each, and puts.
dynamic_start() {
	python3 "$here/dynamic.py" "$1" >/run/dynamic.log 2>&1 &
}

dynamic_put() {
	local size
	for size in 64 1024 8192 65536; do
		curl -sf --retry 100 --retry-connrefused --retry-delay 1 "http://127.0.0.1:8081/f$size" | flotilla cache put "*:8080/f$size" - type text/html
	done
}

# Whose node is the origin. With nothing in the kernel's cache it gets every request.
lardd_start() {
	printf '%s\n' "listen 0.0.0.0:8080" "node origin ${1:?lardd needs the origin}" "mode proxy" "health-check none" \
		"policy wrr" "workers 1" "user root" "control $state/lardd.sock" >$state/lardd.conf
	lardd -c $state/lardd.conf --foreground >/run/lardd.log 2>&1 &
}

# A cache in memory with all it is asked for. Its log takes a record for each header; off, as the others' are, or as
# shipped. As varnishd(1) advises: no more pools than processors, and a thread waits for the next request.
varnish_start() {
	local mask=default
	[ "$1" = logging ] || mask=$(varnishd -x vsl | awk '/^-+$/ { printf "%s-%s", sep, last; sep = "," } { last = $0 }')
	nginx_start "" "" 8081
	cat >$state/varnish.vcl <<-END
	vcl 4.1;
	backend origin { .host = "127.0.0.1"; .port = "8081"; }
	sub vcl_backend_response { set beresp.ttl = 1d; }
	END
	varnishd -j none -n /run/varnish -a :8080 -f $state/varnish.vcl -s malloc,256m -p listen_depth=4096 \
		-p thread_pools="$(nproc)" -p timeout_linger=1 -p timeout_idle=600 -p vsl_mask="$mask"
}

flash_start() {
	flash --port 8080 --workers 1 "$@" >/run/flash.log 2>&1 &
}

howl_start() {
	"$here/../../build/bench/howl" --port 8080 "$@" $www >/run/howl.log 2>&1 &
}

# Arguments of flash.
flash_tls() {
	secured
	printf '%s\n' "listen *:8080 tls" "root $www" "workers 1" "user root" \
		"certificate $state/chain $state/key" "$@" >/run/etc/flash.conf
	flash -c /run/etc/flash.conf >/run/flash.log 2>&1 &
}

server=${1:?which server}
case ${server%-busy} in
nginx) nginx_start ;;
nginx-deferred) nginx_start deferred ;;
afpa) afpa_start nginx_start "" "" 8080 $none ;;
afpa-hybrid)
	afpa_start nginx_start "" "" 8080 $none
	flotilla afpa set mode hybrid
	;;
# A work item may be later than the server, which then answers and keeps the connection: it has the files, too.
afpa-thread)
	afpa_start nginx_start
	flotilla afpa set mode thread
	;;
afpa-lardd) afpa_before lardd_start "${2:-}" ;;
lardd) lardd_start "${2:-}" ;;
dynamic) dynamic_start 8080 ;;
afpa-dynamic)
	dynamic_start 8081
	afpa_before nginx_start "" "" 8080 $none
	dynamic_put
	kill $!
	;;
afpa-deferred) afpa_start nginx_start deferred "" 8080 $none ;;
afpa-flash) afpa_start flash_start --root $none ;;
varnish) varnish_start off ;;
varnish-logging) varnish_start logging ;;
haproxy)
	haproxy_conf "${2:-}" >/run/etc/haproxy.cfg
	haproxy -D -f /run/etc/haproxy.cfg
	;;
lighttpd)
	lighttpd_conf >/run/etc/lighttpd.conf
	lighttpd -f /run/etc/lighttpd.conf
	;;
apache | apache-mmap)
	# With the second, files are mapped and copied by writev().
	apache_conf "$([ "${server%-busy}" = apache ] && echo On || echo Off)" >/run/etc/apache.conf
	apache2 -k start -D FOREGROUND -f /run/etc/apache.conf >/run/apache.log 2>&1 &
	;;
flash) flash_start --root $www ;;
# From 8 KB on, files are sent from the page cache.
flash-sendfile) flash_start --root $www --memory_file 4096 ;;
howl) howl_start ;;
howl-sendfile) howl_start --sendfile ;;
howl-epoll) howl_start --epoll ;;
howl-epoll-sendfile) howl_start --epoll --sendfile ;;
howl-uring) howl_start --uring ;;
tls-flash) flash_tls ;;
tls-flash-sendfile) flash_tls "memory_file 4096" ;;
tls-flash-user) flash_tls "ktls off" ;;
tls-nginx) nginx_tls "ssl_conf_command Options KTLS;" ;;
tls-nginx-user) nginx_tls ;;
none) ;;
*)
	echo "guest.sh: no server called '$1'" >&2
	exit 2
	;;
esac
[ "$server" = none ] || listening
# It makes no system calls: what is executed in user space is what it gets done.
[ "$server" = "${server%-busy}" ] || bash -c 'while :; do :; done' &
exec python3 "$here/snapshot.py" 8090
