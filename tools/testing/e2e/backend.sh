# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# backend.sh nginx|flash: a back-end of the end-to-end test.
. "$FLT_TOP/tools/testing/e2e/common.sh"

work=/tmp/e2e
mkdir -p $work/www
for name in "${!SIZE[@]}"; do
	body "$name" >"$work/www/$name"
done

must modprobe handoff
must sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
must ip address add $SERVICE/32 dev lo
# A network of these guests only.
must flotilla local set name "$FLT_ROLE" address "$(address_of "$FLT_ROLE")" insecure on
must flotilla service add "$SERVICE:80"
must flotilla node add fe address "$(address_of fe)" role frontend

case $1 in
nginx)
	cat >$work/conf <<-END
	worker_processes 1;
	pid $work/pid;
	error_log $work/log;
	events { }
	http {
		access_log off;
		client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f;
		uwsgi_temp_path $work/u; scgi_temp_path $work/s;
		add_header X-Node $FLT_ROLE;
		server { listen $SERVICE:80; root $work/www; }
	}
	END
	must nginx -c $work/conf ;;
flash)
	printf 'listen %s:80\nroot %s\nheader X-Node %s\n' $SERVICE $work/www "$FLT_ROLE" >$work/conf
	flash -c $work/conf >$work/log 2>&1 & ;;
esac
wait_for 90 sh -c 'ss -Hltn "sport = :80" | grep -q .' || bail "$1 does not listen: $(cat $work/log)"
announce "$FLT_ROLE"

await end 450
[ "$(counter AdoptCommitted)" -gt 0 ]
claim "$FLT_ROLE: $1 was given connections" $? "$(flotilla stats show nonzero)"
none_pending() { [ "$(counter AdoptPending)" = 0 ]; }
check "$FLT_ROLE: no connection is left half given" wait_for 60 none_pending
timestamps_are_right
finish
