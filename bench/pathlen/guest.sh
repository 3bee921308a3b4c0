#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guest.sh SERVER [ORIGIN]: in the counted guest, start a server on port 8080 as its own documentation
# says is fast, and answer snapshots on port 8090 until told to quit.
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

# What is behind the port, and what more is to be said.
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
		server { listen 8080 ${1:-} backlog=4096; root $www; ${2:-} }
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

nginx_tls() {
	secured
	nginx_conf ssl "ssl_certificate $state/chain; ssl_certificate_key $state/key; ssl_protocols TLSv1.3; $*" \
		>/run/etc/nginx.conf
	nginx -c /run/etc/nginx.conf -e /run/nginx.error
}

# Arguments of flash.
flash_tls() {
	secured
	printf '%s\n' "listen *:8080 tls" "root $www" "workers 1" "user root" \
		"certificate $state/chain $state/key" "$@" >/run/etc/flash.conf
	flash -c /run/etc/flash.conf >/run/flash.log 2>&1 &
}

case ${1:?which server} in
nginx)
	nginx_conf >/run/etc/nginx.conf
	nginx -c /run/etc/nginx.conf -e /run/nginx.error
	;;
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
	apache_conf "$([ "$1" = apache ] && echo On || echo Off)" >/run/etc/apache.conf
	apache2 -k start -D FOREGROUND -f /run/etc/apache.conf >/run/apache.log 2>&1 &
	;;
flash)
	flash --port 8080 --root $www --workers 1 >/run/flash.log 2>&1 &
	;;
flash-sendfile)
	# From 8 KB on, files are sent from the page cache.
	flash --port 8080 --root $www --workers 1 --memory_file 4096 >/run/flash.log 2>&1 &
	;;
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
exec python3 "$here/snapshot.py" 8090
