#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 480
# long: debug some 200 commands and clients, a few seconds each there
# shellcheck disable=SC2154,SC2317 # namespaces are functions; functions called by name
# By the command line alone: the kernel answers what it was given, and an nginx that knows nothing of it all the rest.
. "$FLT_TOP/tools/testing/lib.sh"

DIR=$(mktemp -d)
at_exit "rm -rf $DIR"
need nginx curl flotilla python3 setpriv
load afpa
lan client:10.0.0.100 server:10.0.0.1
must ip -n client addr add fd00::100/64 dev eth0 nodad
must ip -n server addr add fd00::1/64 dev eth0 nodad

cat >"$DIR/nginx.conf" <<-CONF
	daemon off; user root; worker_processes 2; pid $DIR/nginx.pid; error_log $DIR/nginx.error;
	events { }
	http {
		access_log off;
		server {
			listen 80; listen 8080; listen [::]:80;
			location / { return 200 "nginx \$request_method \$host \$request_uri\n"; }
		}
	}
CONF
server nginx -c "$DIR/nginx.conf" >/dev/null 2>&1 &
at_exit kill $!
wait_for 30 listening server 8080 || bail "nginx does not listen: $(cat "$DIR/nginx.error")"

# of HOST URL... [ARGUMENT...]: what a client gets who means that host.
of() {
	local host=$1
	shift
	client curl -gsS --noproxy '*' --max-time 60 -H "Host: $host" "$@" 2>&1
}

# ask PATH [ARGUMENT...]: the same of www.test at the usual place.
ask() {
	local path=$1
	shift
	of www.test "http://10.0.0.1$path" "$@"
}

cache() {
	server flotilla cache "$@" 2>&1
}

# field NAME URL: of an object, as JSON has it.
field() {
	server flotilla -j cache query "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$1"
}

# refused STATUS NAME SENTENCE COMMAND...
refused() {
	local status=$1 name=$2 sentence=$3 seen
	shift 3
	seen=$("$@" 2>&1)
	equal "$name" "$status flotilla: $sentence" "$? $seen"
}

refused 1 "without a site nothing can be put" \
	"cannot put www.test/a: there is no site at port 80 (flotilla afpa site help)" cache put www.test/a /dev/null
check "a site is added" server flotilla afpa site add 0.0.0.0:80
equal "its listener is found" "0.0.0.0:80 1" "$(server flotilla -t afpa site | cut -f1,2 --output-delimiter=' ')"
equal "what nobody has put is nginx's" "nginx GET www.test /a" "$(ask /a)"

echo "of the kernel" >"$DIR/a.svg"
equal "put says nothing" "" "$(cache put http://www.test/a "$DIR/a.svg" header 'X-Where: kernel' header 'Cache-Control: max-age=60')"
equal "it is answered" "of the kernel" "$(ask /a)"
equal "its headers are those that were given, and its type that of the suffix" \
	"200 image/svg+xml kernel max-age=60 14 Date" \
	"$(ask /a -D "$DIR/head" -o /dev/null; tr -d '\r' <"$DIR/head" | awk '
		/^HTTP/ { s = $2 } /^Content-Type/ { t = $2 } /^X-Where/ { w = $2 } /^Cache-Control/ { c = $2 }
		/^Content-Length/ { l = $2 } /^Date/ { d = "Date" } END { print s, t, w, c, l, d }')"
equal "HEAD has its length and no body" "HTTP/1.1 200 OK 14" \
	"$(ask /a -I | tr -d '\r' | awk '/^HTTP/ { s = $0 } /^Content-Length/ { l = $2 } END { print s, l }')"
equal "the host's case and port 80 make no difference" "of the kernel" "$(of WWW.test:80 http://10.0.0.1/a)"
equal "hits are counted, queries are not" 4 "$(field hits www.test/a; field hits www.test/a >/dev/null)"
equal "they still are not" 4 "$(field hits www.test/a)"

equal "another path is nginx's" "nginx GET www.test /a/" "$(ask /a/)"
equal "another query, too" "nginx GET www.test /a?" "$(ask '/a?')"
equal "another host, too" "nginx GET other.test /a" "$(of other.test http://10.0.0.1/a)"
equal "a POST, too" "nginx POST www.test /a" "$(ask /a -d x=y)"
for header in 'Cookie: a=b' 'Authorization: Basic eA==' 'Cache-Control: no-cache' 'If-None-Match: "x"' \
	'Range: bytes=0-1' 'Expect: 100-continue' 'Transfer-Encoding: identity'; do
	grep -q '^nginx GET\|501' <<<"$(ask /a -H "$header" -w '%{http_code}')"
	claim "a request with '$header' is nginx's" $?
done

# One connection: what nginx has begun to answer on stays nginx's.
url=http://10.0.0.1
equal "in one connection: the kernel's answers, then nginx's" \
	"of the kernel 1 of the kernel 0 nginx GET www.test /b 0 nginx GET www.test /a 0" \
	"$(of www.test $url/a $url/a $url/b $url/a -w '%{num_connects}\n' | paste -sd' ')"

# explain URL [ARGUMENT...]: who answers, and why.
explain() {
	server flotilla -t cache explain "$@" | cut -f2-4 --output-delimiter=' '
}

equal "who would answer is explained: the kernel" "kernel object there is an object" "$(explain www.test/a)"
equal "with a cookie nginx" "server cookie the request has a cookie (cookie: a=b)" "$(explain www.test/a header 'cookie: a=b')"
equal "and to a POST" "server method the request is no GET or HEAD" "$(explain www.test/a method POST)"
equal "with a header of no sense" "server field two parsers could read a header of the request differently (x : y)" \
	"$(explain www.test/a header 'x : y')"
equal "and what nobody has put" "server never it was never put, or so long ago that the kernel has forgotten" "$(explain www.test/b)"
check "a port that is not the site's is said" grep -q '^server port ' <<<"$(explain www.test:81/a site 0.0.0.0:80)"

version=$(field version www.test/a)
equal "standard input is put, too" "" "$(echo second | cache put www.test/a - type text/x-second)"
equal "what was there is replaced at once" "second text/x-second" "$(ask /a -w '%{content_type}' | paste -sd' ')"
[ "$(field version www.test/a)" -gt "$version" ]
claim "its version is greater" $?
check "an update replaces it, too" cache update www.test/a "$DIR/a.svg"
equal "and is seen" "of the kernel" "$(ask /a)"
check "it is deleted" cache del www.test/a
equal "and is nginx's at once" "nginx GET www.test /a" "$(ask /a)"
equal "which is explained" "server deleted it was deleted" "$(explain www.test/a)"
server flotilla -j cache explain www.test/a | python3 -c 'import json, sys
(row,) = json.load(sys.stdin)
assert row["site"] == "0.0.0.0:80" and row["reason"] == "deleted" and row["answers"] == "server", row
assert row["version"] > 0 and row["hits"] > 0 and row["ago_ms"] >= 0 and row["line"] is None, row'
claim "also as JSON" $?
refused 1 "an update does not bring back what was deleted" \
	"cannot update www.test/a: there is no such object, or no site 0.0.0.0:80" cache update www.test/a "$DIR/a.svg"
equal "it has not" "nginx GET www.test /a" "$(ask /a)"
check "to delete what is not there is no error" cache del www.test/a
refused 1 "but with --strict" "cannot delete www.test/a: there is no such object" cache del --strict www.test/a
refused 1 "there is nothing to query" "cannot query www.test/a: there is no such object" cache query www.test/a

check "something is put for an hour" cache put www.test/t "$DIR/a.svg" ttl 1h
left=$(field left_ms www.test/t)
[ "$left" -gt 3000000 ] && [ "$left" -le 3600000 ]
claim "that is what is left" $? "$left"
check "it lives for a moment only" cache ttl www.test/t 300ms
is_nginx() { grep -q '^nginx' <<<"$(ask "$1")"; }
check "after which nginx answers" wait_for 10 is_nginx /t
refused 1 "the kernel does not know it any more" "cannot query www.test/t: there is no such object" cache query www.test/t
refused 1 "nor gives it another life" "cannot change the lifetime of www.test/t: there is no such object" \
	cache ttl www.test/t 1h
must cache put www.test/t "$DIR/a.svg" ttl 20s
check "what lives long is made to live for ever" cache ttl www.test/t never
sleep 21
equal "and does" "of the kernel" "$(ask /t)"

head -c 3000000 /dev/urandom >"$DIR/large"
check "3 MB are put" cache put www.test/large "$DIR/large"
ask /large -o "$DIR/got"
check "and come as they are" cmp "$DIR/large" "$DIR/got"
check "the largest object is made smaller" server flotilla afpa set max_object 1M
refused 1 "a larger one is refused" \
	"cannot put www.test/t: $DIR/large is larger than max_object (flotilla afpa show)" cache put www.test/t "$DIR/large"
equal "what was there stays" "of the kernel" "$(ask /t)"
equal "a type by the URL's suffix" "text/css" "$(cache put www.test/x.css - <"$DIR/a.svg"; ask /x.css -o /dev/null -w '%{content_type}')"

check "an object of any host" cache put '*/any' "$DIR/a.svg"
check "and of one" cache put one.test/any - <<<"of one"
equal "any host gets the one" "of the kernel" "$(ask /any)"
equal "as is explained" "kernel object there is an object for any host" "$(explain www.test/any)"
equal "and the one its own" "of one" "$(of one.test http://10.0.0.1/any)"
check "after it is deleted" cache del one.test/any
equal "it gets that of any" "of the kernel" "$(of one.test http://10.0.0.1/any)"
equal "all are listed, in their order" "www.test/t www.test/large www.test/x.css */any" \
	"$(server flotilla -t cache list | awk -F '\t' '{ print $2 $3 }' | paste -sd' ')"

must mkdir "$DIR/fs"
must mount -t tmpfs tmpfs "$DIR/fs"
echo "in a file" >"$DIR/fs/f.css"
can_write() { (echo x >>"$DIR/fs/f.css") 2>/dev/null; }
equal "a file is put" "" "$(cache file www.test/file "$DIR/fs/f.css" ttl 1h)"
equal "and answered, with the type of its suffix" "in a file text/css" "$(ask /file -w '%{content_type}' | paste -sd' ')"
equal "it is shown as one" "True" "$(field file www.test/file)"
! can_write
claim "nobody can write to it" $?
check "until it is deleted" cache del www.test/file
check "then one can" wait_for 10 can_write
exec 7>>"$DIR/fs/f.css"
refused 1 "who does keeps it from being put" "cannot put www.test/file: somebody has the file open for writing" \
	cache file www.test/file "$DIR/fs/f.css"
exec 7>&-
refused 1 "not every file system has such files" \
	"cannot put www.test/file: its file system is none whose files can be answers (flotilla cache put)" \
	cache file www.test/file /etc/passwd
refused 1 "nor are directories" "cannot put www.test/file: it is not a regular file, or the kernel does not take a value of it" \
	cache file www.test/file "$DIR/fs"
check "a mode is for files" server flotilla afpa set mode hybrid
check "a file is put again" cache file www.test/file "$DIR/fs/f.css" type text/x-file
equal "in that mode it is answered, too" "in a file x text/x-file" "$(ask /file -w '%{content_type}' | paste -sd' ')"
must cache del www.test/file
must server flotilla afpa set mode softirq
must cache put www.test/old "$DIR/a.svg" age 2h
age=$(field age_header www.test/old)
[ "$age" -ge 7200 ] && [ "$age" -lt 7400 ]
claim "an age is shown" $? "$age"
grep -qi '^age: 7[23]' <<<"$(ask /old -I)"
claim "and said" $?
refused 2 "an age is a time" "cannot put www.test/old: age x is not like 0, 30s, 10m, 2h or 1d" \
	cache put www.test/old "$DIR/a.svg" age x
must cache del www.test/old
ticket=$(server flotilla cache ticket)
must cache put www.test/tag/1 "$DIR/a.svg" --automatic tag one tag front since "$ticket"
must cache put www.test/tag/2 "$DIR/a.svg" tag two
equal "a tag is banned, and says how much it was" '{"objects":1}' "$(server flotilla -j cache ban --tag front none)"
equal "who has it is nginx's" "nginx GET www.test /tag/1" "$(ask /tag/1)"
equal "and why" "server banned it was banned" "$(explain www.test/tag/1)"
refused 1 "what was asked for before does not come back" \
	"cannot put www.test/tag/1: it was changed, deleted or banned after that ticket" \
	cache put www.test/tag/1 "$DIR/a.svg" since "$ticket"
equal "all below a path are banned" '{"objects":1}' "$(server flotilla -j cache ban www.test/tag/)"
equal "why it did not is explained" \
	"server refused what was put had been asked for before the URL was changed, deleted or banned" "$(explain www.test/tag/1)"
equal "of whatever host" '{"objects":1}' "$(cache put a.test/tag/3 "$DIR/a.svg"; server flotilla -j cache ban '*/tag/')"

check "IPv6 is a site of its own" server flotilla afpa site add '[::]:80'
check "and so is another port" server flotilla afpa site add 0.0.0.0:8080
check "without a site an object is for all at its port" cache put www.test/both "$DIR/a.svg"
equal "which are two" "0.0.0.0:80 [::]:80" "$(server flotilla -t cache query www.test/both | cut -f1 | paste -sd' ')"
equal "by IPv6" "of the kernel" \
	"$(of www.test 'http://[fd00::1]/both')"
equal "at the other port it is nginx's" "nginx GET www.test /both" \
	"$(of www.test:8080 http://10.0.0.1:8080/both)"
check "a URL's port says which site" cache put www.test:8080/both - <<<"at 8080"
equal "which answers it there" "at 8080" \
	"$(of www.test:8080 http://10.0.0.1:8080/both)"
equal "and there only" "of the kernel" "$(ask /both)"

equal "another network namespace has nothing" "" "$(client flotilla -t cache list)"
unable="setpriv --bounding-set=-net_admin --inh-caps=-net_admin flotilla"
for words in "cache del www.test/both" "cache put www.test/both /dev/null" "cache flush" "cache ttl www.test/both 1s"; do
	# shellcheck disable=SC2086 # words
	refused 1 "without CAP_NET_ADMIN there is no '$words'" \
		"cannot $(case $words in *flush) echo flush the cache ;; *ttl*) echo change the lifetime of www.test/both ;; *del*) echo delete www.test/both ;; *) echo put www.test/both ;; esac): it needs CAP_NET_ADMIN" \
		server $unable $words
done
# shellcheck disable=SC2086 # words
check "but a look" server $unable cache query www.test/both
refused 1 "a user who may not open the device is told so" \
	"cannot list the objects: /dev/afpa cannot be opened: Permission denied" \
	server setpriv --reuid=65534 --regid=65534 --clear-groups flotilla cache

counter() {
	server flotilla -j afpa | python3 -c 'import json, sys; print(json.load(sys.stdin)["counters"][sys.argv[1]])' "$1"
}
check "a work item answers" server flotilla afpa set mode thread
before=$(counter AfpaHitsWorker)
# Where nginx accepts a connection that has its request already, it may be faster than the work item.
by_worker() { [ "$(ask /both)" = "of the kernel" ] && [ "$(counter AfpaHitsWorker)" -gt "$before" ]; }
check "the same" wait_for 60 by_worker
check "the kernel is made silent" server flotilla afpa set mode off
equal "nginx answers all" "nginx GET www.test /both" "$(ask /both)"
equal "and why" "server off the kernel's mode is off (flotilla afpa set mode)" "$(explain www.test/both site 0.0.0.0:80)"
check "and talks again" server flotilla afpa set mode softirq
equal "with what it had" "of the kernel" "$(ask /both)"

shown() { server flotilla -j afpa | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
equal "who makes room is one that was not used of late" clock "$(shown policy)"
check "or the one that was not used for longest" server flotilla afpa set policy lru
equal "as is shown" lru "$(shown policy)"
check "and of late again" server flotilla afpa set policy clock stall 30s
equal "as is shown, too" clock "$(shown policy)"

# A budget: who is used stays.
for n in 1 2 3 4; do
	head -c 200000 /dev/urandom >"$DIR/$n"
	must cache put "www.test/$n" "$DIR/$n"
done
used=$(server flotilla -j afpa | python3 -c 'import json, sys; print(json.load(sys.stdin)["used"])')
check "the budget is made smaller than what is used" server flotilla afpa set budget $((used / 2))
server flotilla -j afpa | python3 -c 'import json, sys
info = json.load(sys.stdin)
assert 0 < info["used"] <= info["budget"], info
assert info["counters"]["AfpaEvicted"] > 0, info'
claim "less is used than that" $?
for n in 1 2 3 4; do explain "www.test/$n" site 0.0.0.0:80; done | grep -q '^server evicted it made room for others'
claim "who went is explained" $?

objects=$(server flotilla -t cache list site 0.0.0.0:80 | wc -l)
equal "a site is flushed, and says how much it was" "{\"objects\":$objects}" \
	"$(server flotilla -j cache flush site 0.0.0.0:80)"
equal "it has nothing left" "" "$(server flotilla -t cache list site 0.0.0.0:80)"
equal "nginx answers there" "nginx GET www.test /both" "$(ask /both)"
check "all sites are deleted" server flotilla afpa site del 0.0.0.0:80 '[::]:80' 0.0.0.0:8080
equal "with all that they had" "" "$(server flotilla -t cache list)"
equal "nginx answers as before" "nginx GET www.test /both" \
	"$(of www.test http://10.0.0.1:8080/both)"
refused 1 "a site that is not there is not deleted" "cannot delete site 0.0.0.0:80: there is no such site" \
	server flotilla afpa site del 0.0.0.0:80
seen=$(server flotilla afpa site add 0.0.0.0:81 2>&1)
grep -q 'WARNING: nobody listens at 0.0.0.0:81 yet' <<<"$seen"
claim "a site without a listener is warned of" $? "$seen"
finish
