# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Back-ends, in a network namespace of the other guest or alone in the counted one; $here, $vip and $state are set.
www=/run/www

files() {
	local size
	mkdir -p $www
	for size in 64 1024 8192 65536 1048576; do
		head -c $size /dev/zero | tr '\0' x >$www/f$size
	done
}

# NAME ADDRESS DEVICE [IN WHICH NAMESPACE...]: has the VIP, never says so, and serves.
backend() {
	local name=$1 device=$3 address=$2
	shift 3
	"$@" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
		"net.ipv4.conf.$device.rp_filter=0" net.ipv4.conf.all.rp_filter=0
	"$@" ip addr add "$vip/32" dev lo
	backend_conf "$name" "$address" >"$state/$name.conf"
	"$@" nginx -c "$state/$name.conf" -e "$state/$name.error"
}

# Only who has a key serves TLS, too: 443 has the records made by the kernel, 444 not.
backend_conf() {
	cat <<-END
	worker_processes 1; user root; pid $state/$1.pid; error_log $state/$1.error;
	events { worker_connections 4096; }
	http {
		access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600s;
		open_file_cache max=100;
		server { listen 80 backlog=4096; listen 8443 backlog=4096; root $www; }
	END
	if [ -s "$state/key" ]; then
		cat <<-END
		ssl_certificate $state/chain; ssl_certificate_key $state/key; ssl_protocols TLSv1.3;
		server { listen $2:443 ssl backlog=4096; root $www; ssl_conf_command Options KTLS; }
		server { listen $2:444 ssl backlog=4096; root $www; }
		END
	fi
	echo "}"
}

# NAME ADDRESS AUTHENTICATION [IN WHICH NAMESPACE...]: takes connections.
node() {
	local name=$1 address=$2 auth=$3
	shift 3
	"$@" "$here/patient.sh"
	"$@" flotilla local set name "$name" address "$address" insecure on
	"$@" flotilla service add "$vip"
	# shellcheck disable=SC2086
	"$@" flotilla node add fe address 10.77.0.1 role frontend $auth
}
