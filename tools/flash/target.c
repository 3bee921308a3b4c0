// SPDX-License-Identifier: GPL-2.0
/* From the path of a request to a name below the document root. */
#include "target.h"

#include <stdint.h>
#include <string.h>

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/*
 * Decoding comes first, segments second: "%2e%2e" climbs like "..". An encoded slash would be a
 * separator to the file system and data to the client; it is refused rather than guessed about.
 */
int target_decode(const char *path, size_t len, char *out)
{
	const char *end = path + len;
	char *o = out, *seg;

	if (!len || *path != '/')
		return -400;
	while (path < end) {
		path++;			/* the slash */
		*o++ = '/';
		seg = o;
		while (path < end && *path != '/') {
			char c = *path++;

			if (c == '%') {
				int hi, lo;

				if (end - path < 2)
					return -400;
				hi = hex(path[0]);
				lo = hex(path[1]);
				if (hi < 0 || lo < 0)
					return -400;
				c = hi << 4 | lo;
				path += 2;
				if (c == '\0' || c == '/')
					return -400;
			}
			*o++ = c;
		}
		if (o == seg) {					/* "//" */
			if (path < end)
				o--;
		} else if (o - seg == 1 && seg[0] == '.') {	/* "/." */
			o = path < end ? seg - 1 : seg;
		} else if (o - seg == 2 && seg[0] == '.' && seg[1] == '.') {
			if (seg - 1 == out)
				return -403;
			for (o = seg - 2; *o != '/'; o--)
				;
			if (path == end)
				o++;
		}
	}
	*o = '\0';
	return 0;
}

void target_encode(const char *in, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8_t c;

	for (; (c = *in); in++) {
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr("/-._~!$&()*+,;=:@", c)) {
			*out++ = c;
		} else {
			*out++ = '%';
			*out++ = digits[c >> 4];
			*out++ = digits[c & 15];
		}
	}
	*out = '\0';
}
