// SPDX-License-Identifier: GPL-2.0
/* What happened, as lines for people and as rows with tabs. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "top.h"

#define REFUSED_MOST	6	/* of a screen */

static double real_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

/* As a terminal shows it and does not obey it; an empty one is "-". */
static const char *plain(const json_t *object, const char *key, char *text, size_t size)
{
	const char *from = json_string_value(json_object_get(object, key));
	size_t n = 0;

	for (; from && *from && n + 5 < size; from++)
		n += sprintf(text + n, isascii(*from) && isprint(*from) ? "%c" : "\\x%02x",
			     (unsigned char)*from);
	text[n] = '\0';
	if (!n)
		strcpy(text, "-");
	return text;
}

static const char *short_number(double value, char text[16])
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (value >= 999.5 && unit < sizeof(units) - 2) {
		value /= 1000;
		unit++;
	}
	if (unit)
		snprintf(text, 16, "%.3g%c", value, units[unit]);
	else
		snprintf(text, 16, value && value < 99.95 ? "%.1f" : "%.0f", value);
	return text;
}

static void put_dispatcher(FILE *out, const json_t *top)
{
	const json_t *d = json_object_get(top, "dispatcher");
	char mode[32], policy[32];

	if (!json_is_object(d)) {
		fputs("no dispatcher answers here\n", out);
		return;
	}
	fprintf(out, "dispatcher: %s, policy %s, %.0f nodes, load %.0f of %.0f, %.0f waiting, "
		"%.0f WebSockets\n", plain(d, "mode", mode, sizeof(mode)),
		plain(d, "policy", policy, sizeof(policy)),
		real_of(d, "nodes"), real_of(d, "outstanding"), real_of(d, "limit"),
		real_of(d, "queued"), real_of(d, "tunnels"));
}

static void put_rates(FILE *out, const json_t *top)
{
	static const struct {
		const char *key, *title;
	} shown[] = {
		{ "accepted", "accepted" }, { "requests", "requests" }, { "proxied", "proxied" },
		{ "handed_off", "handed off" }, { "adopted", "adopted" },
		{ "forwarded_packets", "packets forwarded" },
		{ "kernel_answers", "answered in the kernel" },
	};
	const json_t *rates = json_object_get(top, "rates");
	double seconds = real_of(rates, "handoff_seconds");
	char text[16];
	size_t i;

	fputs("each second:", out);
	for (i = 0; i < ARRAY_SIZE(shown); i++)
		fprintf(out, "%s %s %s", i ? "," : "",
			short_number(real_of(rates, shown[i].key), text), shown[i].title);
	if (seconds > 0)
		fprintf(out, " in %.2f ms", seconds * 1e3);
	fputc('\n', out);
}

static void put_head(FILE *out, const json_t *top)
{
	time_t at = real_of(top, "time");
	struct tm local;
	char clock[16];

	localtime_r(&at, &local);
	strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	fprintf(out, "flotilla top  %s  %.1f s%s\n", clock, real_of(top, "seconds"),
		json_is_true(json_object_get(top, "kernel")) ? "" :
		"  (flotilla.ko is not loaded)");
	put_dispatcher(out, top);
	put_rates(out, top);
}

static void put_node(FILE *out, const json_t *node)
{
	char name[40], state[16], admin[16], reason[80], rate[16], load[40];
	bool dispatched = json_object_get(node, "t_high");

	snprintf(load, sizeof(load), dispatched ? "%.0f/%.0f" : "%.0f", real_of(node, "load"),
		 real_of(node, "t_high"));
	fprintf(out, "%-16s %-10s %-11s %9s %6.0f %8s %8.2f  %s\n",
		plain(node, "node", name, sizeof(name)), plain(node, "state", state, sizeof(state)),
		plain(node, "admin", admin, sizeof(admin)), load, real_of(node, "weight"),
		dispatched ? short_number(real_of(node, "requests_rate"), rate) : "-",
		real_of(node, "rtt_seconds") * 1e3, plain(node, "reason", reason, sizeof(reason)));
}

/* At most @most rows, the last of which may say how many more there are. */
static unsigned int put_nodes(FILE *out, const json_t *top, unsigned int most)
{
	const json_t *nodes = json_object_get(top, "nodes"), *node;
	size_t nr = json_array_size(nodes), i;

	if (!nr || most < 3)
		return 0;
	fprintf(out, "\n%-16s %-10s %-11s %9s %6s %8s %8s  %s\n", "NODE", "STATE", "ADMIN", "LOAD",
		"WEIGHT", "REQ/S", "RTT ms", "REASON");
	most -= 2;
	json_array_foreach(nodes, i, node) {
		if (nr > most && i + 1 == most) {
			fprintf(out, "... and %zu more\n", nr - i);
			return most + 2;
		}
		put_node(out, node);
	}
	return nr + 2;
}

static int by_rate(const void *a, const void *b)
{
	const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
	double difference = real_of(y, "rate") - real_of(x, "rate");

	if (difference)
		return difference > 0 ? 1 : -1;
	difference = real_of(y, "total") - real_of(x, "total");
	return difference > 0 ? 1 : difference < 0 ? -1 :
	       strcmp(json_string_value(json_object_get(x, "name")),
		      json_string_value(json_object_get(y, "name")));
}

/* Those of @room, or all, the busiest first; to be freed, as they are in @list. */
static const json_t **sorted(const json_t *list, const char *room, size_t *nr)
{
	const json_t **all = calloc(json_array_size(list) + 1, sizeof(*all)), *row;
	size_t i;

	*nr = 0;
	if (!all)
		return NULL;
	json_array_foreach(list, i, row)
		if (!room || !strcmp(room, json_string_value(json_object_get(row, "room"))))
			all[(*nr)++] = row;
	qsort(all, *nr, sizeof(*all), by_rate);
	return all;
}

static void put_counter(FILE *out, const json_t *row, const char *room)
{
	char name[80], rate[16];

	fprintf(out, "%-9s %-32s %9s %20.0f\n", room, plain(row, "name", name, sizeof(name)),
		short_number(real_of(row, "rate"), rate), real_of(row, "total"));
}

static unsigned int put_refused(FILE *out, const json_t *top, unsigned int most)
{
	size_t nr, i;
	const json_t **rows = sorted(json_object_get(top, "refused"), NULL, &nr);
	char room[40];

	if (nr && rows && most >= 3) {
		nr = nr < most - 2 ? nr : most - 2;
		fprintf(out, "\n%-9s %-32s %9s %20s\n", "REFUSED", "REASON", "EACH S", "TOTAL");
		for (i = 0; i < nr; i++)
			put_counter(out, rows[i], plain(rows[i], "room", room, sizeof(room)));
		nr += 2;
	} else {
		nr = 0;
	}
	free(rows);
	return nr;
}

/* The rooms that counted something, each once and in their order; to be freed. */
static const char **rooms_of(const json_t *counters, size_t *nr)
{
	const char **rooms = calloc(json_array_size(counters) + 1, sizeof(*rooms));
	const json_t *row;
	size_t i, known;

	*nr = 0;
	json_array_foreach(counters, i, row) {
		const char *room = json_string_value(json_object_get(row, "room"));

		for (known = 0; rooms && known < *nr && strcmp(rooms[known], room); known++)
			;
		if (rooms && known == *nr)
			rooms[(*nr)++] = room;
	}
	return rooms;
}

/* What is at this moment, in one line. */
static void put_gauges(FILE *out, const json_t *top, const char *room)
{
	const json_t *row;
	const char *sep = "";
	char name[80];
	size_t i;

	json_array_foreach(json_object_get(top, "gauges"), i, row) {
		if (strcmp(room, json_string_value(json_object_get(row, "room"))))
			continue;
		fprintf(out, "%s%s %.0f", sep, plain(row, "name", name, sizeof(name)),
			real_of(row, "value"));
		sep = ", ";
	}
}

static void put_room(FILE *out, const json_t *top, const char *room, size_t most)
{
	size_t nr, i;
	const json_t **rows = sorted(json_object_get(top, "counters"), room, &nr);
	char gauges[512] = "";
	FILE *line = fmemopen(gauges, sizeof(gauges), "w");

	if (line) {
		put_gauges(line, top, room);
		fclose(line);
	}
	for (i = 0; rows && i < nr && i < most; i++)
		put_counter(out, rows[i], i ? "" : room);
	if (gauges[0])
		fprintf(out, "%-9s %s\n", "", gauges);
	free(rows);
}

/* All rooms get the same share of the lines that are left, one of them for their gauges. */
static void put_rooms(FILE *out, const json_t *top, unsigned int left)
{
	size_t nr, i, each = SIZE_MAX;
	const char **rooms = rooms_of(json_object_get(top, "counters"), &nr);

	if (left && nr)
		each = left > 2 + 2 * nr ? (left - 2) / nr - 1 : 1;
	if (nr && (!left || left > 2)) {
		fprintf(out, "\n%-9s %-32s %9s %20s\n", "ROOM", "COUNTER", "EACH S", "TOTAL");
		for (i = 0; i < nr; i++)
			put_room(out, top, rooms[i], each);
	}
	free(rooms);
}

char *top_text(const json_t *top, unsigned int rows)
{
	unsigned int left = rows > 3 ? rows - 3 : 1, refused = REFUSED_MOST + 2;
	size_t len;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	put_head(out, top);
	if (rows) {
		left -= put_nodes(out, top, left / 3);
		left -= put_refused(out, top, left / 3 < refused ? left / 3 : refused);
		put_rooms(out, top, left);
	} else {
		put_nodes(out, top, UINT32_MAX);
		put_refused(out, top, UINT32_MAX);
		put_rooms(out, top, 0);
	}
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

static void put_list(FILE *out, const json_t *top, const char *list, const char *kind)
{
	char room[40], name[80];
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(top, list), i, row)
		fprintf(out, "%s\t%s\t%s\t%.3f\t%.0f\n", kind,
			plain(row, "room", room, sizeof(room)),
			plain(row, "name", name, sizeof(name)), real_of(row, "rate"),
			real_of(row, "total"));
}

void top_rows(const json_t *top, FILE *out)
{
	char name[160], state[16], admin[16], gauge[80];
	const json_t *row, *value;
	const char *key;
	size_t i;

	json_object_foreach(json_object_get(top, "rates"), key, value)
		fprintf(out, "rate\t%s\t%.6f\n", key, json_number_value(value));
	json_array_foreach(json_object_get(top, "nodes"), i, row)
		fprintf(out, "node\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.3f\t%.6f\n",
			plain(row, "node", name, sizeof(name)),
			plain(row, "state", state, sizeof(state)),
			plain(row, "admin", admin, sizeof(admin)), real_of(row, "load"),
			real_of(row, "t_high"), real_of(row, "weight"),
			real_of(row, "requests_rate"), real_of(row, "rtt_seconds"));
	put_list(out, top, "refused", "refused");
	put_list(out, top, "counters", "counter");
	json_array_foreach(json_object_get(top, "gauges"), i, row)
		fprintf(out, "gauge\t%s\t%s\t%.0f\n", plain(row, "room", name, sizeof(name)),
			plain(row, "name", gauge, sizeof(gauge)), real_of(row, "value"));
}
