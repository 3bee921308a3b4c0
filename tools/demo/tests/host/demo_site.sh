#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# The demo's web site is the same every time, whole, and of the size that was asked for.
. "$FLT_TOP/tools/testing/lib.sh"
work=$(mktemp -d)
at_exit rm -rf "$work"

hash_of() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
}

check "a site is written" "$FLT_TOP/tools/demo/site" "$work/one" --megabytes 3
check "and another" "$FLT_TOP/tools/demo/site" "$work/two" --megabytes 3
equal "both are the same" "$(hash_of "$work/one")" "$(hash_of "$work/two")"
size=$(du -sb "$work/one/library" | cut -f1)
[ "$size" -gt 2800000 ] && [ "$size" -lt 4200000 ]
claim "its library has about 3 MB" $? "$size bytes"
missing=$(while read -r url; do
	[ -s "$work/one/${url#/}" ] || [ "$url" = / ] || echo "$url"
done <"$work/one/urls.txt")
equal "every target is there" "" "$missing"
broken=$(grep -rhoE '(href|src)="[^"]*"' "$work/one"/*.html | sort -u | while IFS='"' read -r _ url _; do
	[ -e "$work/one/${url#/}" ] || echo "$url"
done)
equal "no page refers to what is not there" "" "$broken"
python3 - "$work/one/readme.html" <<-'END'
	import sys
	from html.parser import HTMLParser

	class Balance(HTMLParser):
	    """Complains about tags that are not closed in order."""
	    open = []

	    def handle_starttag(self, tag, attrs):
	        if tag not in ("meta", "link", "img"):
	            self.open.append(tag)

	    def handle_endtag(self, tag):
	        assert self.open and self.open[-1] == tag, (tag, self.open[-3:], self.getpos())
	        self.open.pop()

	parser = Balance()
	parser.feed(open(sys.argv[1]).read())
	assert not parser.open, parser.open
END
claim "the rendered README is well-formed" $?
finish
