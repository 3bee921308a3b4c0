// SPDX-License-Identifier: GPL-2.0
/* Dates of HTTP (RFC 9110 5.6.7). */
#include "httpdate.h"

#include <string.h>

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static void two(char *o, int n)
{
	o[0] = '0' + n / 10 % 10;
	o[1] = '0' + n % 10;
}

void httpdate_format(time_t t, char *o)
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < -1900) {
		t = 0;
		gmtime_r(&t, &tm);
	}
	memcpy(o, "Sun, 06 Nov 1994 08:49:37 GMT", HTTPDATE_LEN);
	memcpy(o, days + 3 * tm.tm_wday, 3);
	two(o + 5, tm.tm_mday);
	memcpy(o + 8, months + 3 * tm.tm_mon, 3);
	two(o + 12, (tm.tm_year + 1900) / 100);
	two(o + 14, tm.tm_year % 100);
	two(o + 17, tm.tm_hour);
	two(o + 20, tm.tm_min);
	two(o + 23, tm.tm_sec);
}

/* @n digits (a leading blank counts as 0), or -1. */
static int number(const char *p, int n)
{
	int v = 0;

	if (n == 2 && p[0] == ' ')
		p++, n--;
	for (; n--; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		v = v * 10 + (*p - '0');
	}
	return v;
}

static int month(const char *p)
{
	int i;

	for (i = 0; i < 12; i++)
		if (!memcmp(p, months + 3 * i, 3))
			return i;
	return -1;
}

static int weekday(const char *p)
{
	int i;

	for (i = 0; i < 7; i++)
		if (!memcmp(p, days + 3 * i, 3))
			return i;
	return -1;
}

/* @clock: "08:49:37". A day that its month does not have is not a date. */
static time_t assemble(int year, int mon, int day, const char *clock)
{
	struct tm tm = { .tm_year = year - 1900, .tm_mon = mon, .tm_mday = day };
	time_t t;
	int leap;

	tm.tm_hour = number(clock, 2);
	tm.tm_min = number(clock + 3, 2);
	tm.tm_sec = number(clock + 6, 2);
	if (year < 0 || mon < 0 || day < 1 || day > 31 || clock[2] != ':' || clock[5] != ':' ||
	    tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 || tm.tm_min > 59 ||
	    tm.tm_sec < 0 || tm.tm_sec > 60)
		return -1;
	leap = tm.tm_sec == 60;
	tm.tm_sec -= leap;
	t = timegm(&tm);
	return tm.tm_mon == mon ? t + leap : -1;
}

time_t httpdate_parse(const char *p, size_t len)
{
	const char *comma = memchr(p, ',', len);

	if (len < 24 || weekday(p) < 0 || (comma && memcmp(p + len - 4, " GMT", 4)))
		return -1;
	if (len == HTTPDATE_LEN && comma == p + 3)	/* Sun, 06 Nov 1994 08:49:37 GMT */
		return assemble(number(p + 12, 4), month(p + 8), number(p + 5, 2), p + 17);
	if (comma && len - (comma - p) == 24) {		/* Sunday, 06-Nov-94 08:49:37 GMT */
		int year = number(comma + 9, 2);

		/* Two digits mean the nearest year that is not far in the future. */
		if (year >= 0)
			year += year < 70 ? 2000 : 1900;
		return assemble(year, month(comma + 5), number(comma + 2, 2), comma + 12);
	}
	if (!comma && len == 24)			/* Sun Nov  6 08:49:37 1994 */
		return assemble(number(p + 20, 4), month(p + 4), number(p + 8, 2), p + 11);
	return -1;
}
