// SPDX-License-Identifier: GPL-2.0
/*
 * The snapshot as HTML: all that changes on the page. Whatever somebody else has named goes out through html_put().
 */
#include <inttypes.h>
#include <string.h>
#include "status_now.h"
#include "tools/base/html.h"

static const char *const reason_texts[LARD_REASONS] = {
	[LARD_WHY_NO_NODE] = "no node gets requests",
	[LARD_WHY_FULL] = "at the limit: had to wait",
	[LARD_WHY_FEWEST] = "the node with the fewest requests",
	[LARD_WHY_HASH] = "the target's hash says so",
	[LARD_WHY_RING] = "the target's home on the ring",
	[LARD_WHY_RING_SPILL] = "home is full: the next on the ring",
	[LARD_WHY_FIRST] = "never asked for before: the least loaded",
	[LARD_WHY_KEEP] = "the node has the target",
	[LARD_WHY_KEEP_BUSY] = "the node has it and is busy; so are the others",
	[LARD_WHY_MOVE_IDLE] = "moved: its node was busy, another idle",
	[LARD_WHY_MOVE_CAP] = "moved: its node was at twice T_high",
	[LARD_WHY_GROW_IDLE] = "one node more: its nodes were busy, another idle",
	[LARD_WHY_GROW_CAP] = "one node more: its nodes were at twice T_high",
	[LARD_WHY_SHRINK] = "one node fewer: its set had not changed for long",
	[LARD_WHY_RETRY] = "another node refused it",
};

#define TEXT(n)		#n
#define TEXT_OF(n)	TEXT(n)
#define MEAN " /s: the mean of the last " TEXT_OF(STATUS_RATE) " s."

static const char *const outcome_texts[OUTCOMES] = {
	"handed off<small>until the node has it</small>", "proxied", "from the cache", "refused",
};

static void put_rate(FILE *out, double rate)
{
	fprintf(out, rate < 10 ? "%.1f" : "%.0f", rate);
}

static void put_count(FILE *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), i;

	for (i = 0; i < len; i++) {
		if (i && !((len - i) % 3))
			fputs("\u202f", out);
		fputc(digits[i], out);
	}
}

/* Of nothing there is no share. */
static void put_share(FILE *out, double hits, double misses)
{
	if (hits + misses > 0)
		fprintf(out, "%.0f %%", 100 * hits / (hits + misses));
	else
		fputs("\u2013", out);
}

static void put_bytes(FILE *out, double n)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	unsigned int i = 0;

	for (; n >= 1000 && i < 4; i++)
		n /= 1000;
	fprintf(out, i && n < 100 ? "%.1f %s" : "%.0f %s", n, units[i]);
}

static void put_seconds(FILE *out, double s)
{
	/* The least bound of the histogram. */
	if (s < 0.0001)
		fputs("&lt; 0.1 ms", out);
	else if (s < 0.001)
		fprintf(out, "%.2f ms", s * 1e3);
	else if (s < 1)
		fprintf(out, "%.3g ms", s * 1e3);
	else
		fprintf(out, "%.2f s", s);
}

static void put_uptime(FILE *out, double seconds)
{
	unsigned int minutes = seconds / 60;

	if (minutes >= 24 * 60)
		fprintf(out, "%u d %u h", minutes / 60 / 24, minutes / 60 % 24);
	else if (minutes >= 60)
		fprintf(out, "%u h %u min", minutes / 60, minutes % 60);
	else if (minutes)
		fprintf(out, "%u min", minutes);
	else
		fprintf(out, "%.0f s", seconds);
}

static void begin(FILE *out, const char *id, const char *title)
{
	fprintf(out, "<section id=\"%s\" aria-labelledby=\"%s-title\"><h2 id=\"%s-title\">%s</h2>\n",
		id, id, id, title);
}

static void begin_caption(FILE *out, const char *id)
{
	/* Wider than a phone it is moved by itself, also with the keyboard. */
	fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"%s-title\">"
		"<table><caption><span>", id);
}

static void end_caption(FILE *out)
{
	fputs("</span></caption><thead><tr>", out);
}

static void begin_table(FILE *out, const char *id, const char *caption)
{
	begin_caption(out, id);
	fputs(caption, out);
	end_caption(out);
}

static void end_table(FILE *out)
{
	fputs("</tbody></table></div></section>\n", out);
}

/* --- sections --- */

static void put_graph(FILE *out, const struct status_now *now)
{
	double most = 1;
	unsigned int i;

	for (i = 0; i < now->history; i++)
		most = now->requests[i] > most ? now->requests[i] : most;
	fputs("<figure><svg viewBox=\"0 0 480 80\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"", out);
	fprintf(out, "Requests a second in the last two minutes: now %.0f, at most %.0f\"><path d=\"M%u 80",
		now->history ? now->requests[now->history - 1] : 0, now->history ? most : 0,
		(STATUS_HISTORY - now->history) * 4);
	for (i = 0; i < now->history; i++)
		fprintf(out, "L%u %.1f", (STATUS_HISTORY - now->history + i) * 4,
			79 - 76 * now->requests[i] / most);
	fputs("L476 80Z\"/></svg><figcaption>Requests a second, two minutes; at most ", out);
	put_rate(out, now->history ? most : 0);
	fputs("</figcaption></figure>", out);
}

static double all_answers(const double *rates)
{
	double sum = 0;
	unsigned int i;

	for (i = 0; i < TALLY_CODES; i++)
		sum += rates[i];
	return sum;
}

static void put_overview(FILE *out, const struct status_now *now)
{
	const struct status_latency *l = &now->latency[*now->mode == 'h' ? OUTCOME_HANDOFF : OUTCOME_PROXY];
	double answers = all_answers(now->code_rates);

	begin(out, "overview", "Overview");
	fputs("<dl class=\"tiles\"><div><dt>Nodes</dt><dd>", out);
	fprintf(out, "<b id=\"nodes-up\" class=\"%s\">%u of %u</b> <small>get requests</small>",
		now->nodes_eligible == now->nodes_known ? "good" : "bad", now->nodes_eligible, now->nodes_known);
	fputs("</dd></div><div><dt>Requests</dt><dd><b>", out);
	put_rate(out, now->rates[COUNTER_REQUESTS]);
	fputs("</b> <small>a second</small></dd></div><div><dt>Handed off</dt><dd><b>", out);
	put_rate(out, now->rates[COUNTER_HANDED_OFF]);
	fputs("</b> <small>a second</small></dd></div><div><dt>Proxied</dt><dd><b>", out);
	put_rate(out, now->rates[COUNTER_PROXIED]);
	fputs("</b> <small>a second</small></dd></div><div><dt>Under way</dt><dd><b>", out);
	put_count(out, now->outstanding);
	fputs("</b> <small>of ", out);
	put_count(out, now->limit);
	fprintf(out, "</small></dd></div><div><dt>Waiting</dt><dd><b class=\"%s\">",
		now->waiting ? "bad" : "good");
	put_count(out, now->waiting);
	fputs("</b> <small>for room</small></dd></div><div><dt>Latency</dt><dd><b>", out);
	if (l->count)
		put_seconds(out, l->p99);
	else
		fputs("\u2013", out);
	fprintf(out, "</b> <small>99 %%</small></dd></div><div><dt>Errors (5xx)</dt><dd><b class=\"%s\">",
		now->code_rates[4] > 0 ? "bad" : "good");
	fprintf(out, "%.1f %%", answers > 0 ? 100 * now->code_rates[4] / answers : 0);
	fputs("</b> <small>of answers</small></dd></div></dl>\n", out);
	put_graph(out, now);
	fprintf(out, "<p>lardd %s, policy <code>%s</code> (T_low %u, T_high %u), %u worker%s, up for ",
		FLT_VERSION, now->policy, now->t_low, now->t_high, now->workers,
		now->workers == 1 ? "" : "s");
	put_uptime(out, now->uptime);
	fprintf(out, ". Mode %s: ", now->mode);
	html_put(out, now->mode_why);
	fprintf(out, ".</p></section>\n");
}

/* The load, other front-ends' too, and the two thresholds as marks; the bar ends at twice T_high, where targets move in any case. */
static void put_bar(FILE *out, const struct status_node *n)
{
	double end = n->high ? 2.0 * n->high : 1, all = (double)n->load + n->others;

	fprintf(out, "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
		"<rect class=\"ground\" width=\"100\" height=\"10\"/>"
		"<rect class=\"%s\" width=\"%.1f\" height=\"10\"/>",
		all > n->high ? "over" : "load", 100 * (all < end ? all : end) / end);
	if (n->high)
		fprintf(out, "<path d=\"M%.1f 0V10M%.1f 0V10\"/>", 100 * n->low / end, 100 * n->high / end);
	fputs("</svg>", out);
}

/* A node of the kernel's table has no port of its own. */
static void put_address(FILE *out, const char *address)
{
	size_t len = strlen(address);
	char text[ADDRESS_TEXT];

	strcpy(text, address);
	if (len > 2 && !strcmp(text + len - 2, ":0"))
		text[len - 2] = '\0';
	html_put(out, text);
}

static void put_node(FILE *out, const struct status_node *n)
{
	fputs("<tr><th scope=\"row\">", out);
	html_put(out, n->name);
	fputs("<small>", out);
	put_address(out, n->address);
	fprintf(out, "</small></th><td class=\"text\"><span class=\"%s\">%s</span><small>",
		n->eligible ? "good" : "bad",
		n->eligible ? "\u25cf up" : n->up ? "\u25d0 out" : "\u25cb down");
	html_put(out, n->why);
	fputs("</small></td><td>", out);
	put_bar(out, n);
	fprintf(out, "<span class=\"load-number\">%u", n->load);
	if (n->others)
		fprintf(out, "<small> +%u</small>", n->others);
	fputs("</span></td><td>", out);
	if (n->high)
		fprintf(out, "%u", n->low);
	fputs("\u2013", out);			/* alone, of a node that is to get nothing */
	if (n->high)
		fprintf(out, "%u", n->high);
	fprintf(out, "</td><td>%u</td><td>", n->weight);
	put_rate(out, n->rate);
	fputs("</td><td>", out);
	put_count(out, n->chosen);
	fprintf(out, "</td><td class=\"text\">%s</td></tr>\n", n->handoff ? "handoff" : "proxy");
}

static void put_nodes(FILE *out, const struct status_now *now)
{
	unsigned int i;

	begin(out, "nodes", "Nodes");
	begin_table(out, "nodes", "Load is requests under way, +N those of other front-ends. The bar ends at twice T_high; "
		    "its marks are T_low and T_high.");
	fputs("<th scope=\"col\">Node</th><th scope=\"col\" class=\"text\">State</th><th scope=\"col\">Load</th>"
	      "<th scope=\"col\">T_low\u2013T_high</th><th scope=\"col\">Weight</th><th scope=\"col\">Requests/s</th>"
	      "<th scope=\"col\">Requests</th><th scope=\"col\" class=\"text\">By</th></tr></thead><tbody>\n", out);
	for (i = 0; i < LARD_MAX_NODES; i++)
		if (now->nodes[i].used)
			put_node(out, &now->nodes[i]);
	if (!now->nodes_known)
		fputs("<tr><td colspan=\"8\" class=\"text\">There are none.</td></tr>", out);
	end_table(out);
}

/* Of who is alone there is nothing to say. */
static void put_front_ends(FILE *out, const struct status_now *now)
{
	unsigned int i;

	if (!now->front_end_count)
		return;
	begin(out, "front-ends", "Other front-ends");
	begin_table(out, "front-ends", "Who gives these nodes requests, too, and how many are under way.");
	fputs("<th scope=\"col\">Address</th><th scope=\"col\" class=\"text\">State</th>"
	      "<th scope=\"col\">Load given</th></tr></thead><tbody>\n", out);
	for (i = 0; i < now->front_end_count; i++) {
		const struct share_peer *f = &now->front_ends[i];

		fputs("<tr><th scope=\"row\">", out);
		html_put(out, f->address);
		fprintf(out, "</th><td class=\"text\"><span class=\"%s\">%s</span></td><td>",
			f->heard ? "good" : "bad", f->heard ? "\u25cf heard" : "\u25cb silent");
		put_count(out, f->load);
		fputs("</td></tr>\n", out);
	}
	end_table(out);
}

static void put_latency(FILE *out, const struct status_now *now)
{
	unsigned int i;

	begin(out, "latency", "Latency, last minute");
	begin_table(out, "latency", "From the end of a request's header to the end of its answer.");
	fputs("<th scope=\"col\">Requests</th><th scope=\"col\">Number</th><th scope=\"col\">Mean</th>"
	      "<th scope=\"col\">50 %</th><th scope=\"col\">95 %</th><th scope=\"col\">99 %</th></tr></thead><tbody>\n",
	      out);
	for (i = 0; i < OUTCOMES; i++) {
		const struct status_latency *l = &now->latency[i];
		const double times[] = { l->mean, l->p50, l->p95, l->p99 };
		unsigned int t;

		fprintf(out, "<tr><th scope=\"row\">%s</th><td>", outcome_texts[i]);
		put_count(out, l->count);
		for (t = 0; t < 4; t++) {
			fputs("</td><td>", out);
			if (l->count)
				put_seconds(out, times[t]);
			else
				fputs("\u2013", out);
		}
		fputs("</td></tr>\n", out);
	}
	end_table(out);
}

/* A row of "what, how often, how often a second". */
static void put_row(FILE *out, const char *name, const char *about, uint64_t total, double rate)
{
	fprintf(out, "<tr><th scope=\"row\">%s<small>%s</small></th><td>", name, about);
	put_count(out, total);
	fputs("</td><td>", out);
	put_rate(out, rate);
	fputs("</td></tr>\n", out);
}

static void put_rows_head(FILE *out, const char *what)
{
	fprintf(out, "<th scope=\"col\">%s</th><th scope=\"col\">Number</th><th scope=\"col\">/s</th></tr></thead>"
		"<tbody>\n", what);
}

static void begin_rows(FILE *out, const char *id, const char *title, const char *caption, const char *what)
{
	begin(out, id, title);
	begin_table(out, id, caption);
	put_rows_head(out, what);
}

static void put_decisions(FILE *out, const struct status_now *now)
{
	unsigned int i, rows = 0;

	begin_rows(out, "decisions", "Decisions", "Why the policy chose a node." MEAN, "Reason");
	for (i = 0; i < LARD_REASONS; i++) {
		if (!now->reasons[i])
			continue;
		put_row(out, lard_reason_name(i), reason_texts[i], now->reasons[i], now->reason_rates[i]);
		rows++;
	}
	if (!rows)
		fputs("<tr><td colspan=\"3\" class=\"text\">None yet.</td></tr>", out);
	end_table(out);
}

static void put_answers(FILE *out, const struct status_now *now)
{
	static const char *const abouts[TALLY_CODES] = {
		"tunnels", "success", "elsewhere, or unchanged", "the client's fault", "a back-end's fault, or lardd's",
	};
	static const struct {
		enum counter counter;
		const char *name, *about;
	} more[] = {
		{ COUNTER_PROXY_FALLBACK, "fallback", "proxied after a handoff was refused" },
		{ COUNTER_HANDOFF_FAILED, "failed handoffs", "refused or timed out" },
		{ COUNTER_QUEUED, "waited", "for room" },
		{ COUNTER_ABORTED, "aborted", "clients that went away" },
		{ COUNTER_TLS_HANDSHAKES, "TLS handshakes", "completed" },
		{ COUNTER_TLS_RESUMED, "resumed", "of them, with a session ticket" },
		{ COUNTER_TLS_FAILED, "failed handshakes", "or that took too long" },
		{ COUNTER_TLS_NAME_MISSED, "unknown names", "no certificate is for" },
	};
	unsigned int i;

	begin_rows(out, "answers", "Answers", "What clients got." MEAN, "Class");
	for (i = 0; i < TALLY_CODES; i++)
		put_row(out, (char []){ '1' + i, 'x', 'x', '\0' }, abouts[i], now->codes[i],
			now->code_rates[i]);
	for (i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		put_row(out, more[i].name, more[i].about, now->counters[more[i].counter],
			now->rates[more[i].counter]);
	end_table(out);
}

static void put_connections(FILE *out, const struct status_now *now)
{
	unsigned int i;

	begin(out, "connections", "Connections");
	begin_table(out, "connections", "Of clients, by what they are at.");
	fputs("<th scope=\"col\">State</th><th scope=\"col\">Now</th></tr></thead><tbody>\n", out);
	for (i = CONN_SHAKE; i < CONN_STATES; i++) {
		fprintf(out, "<tr><th scope=\"row\">%s</th><td>", conn_state_names[i]);
		put_count(out, now->connections[i]);
		fputs("</td></tr>\n", out);
	}
	end_table(out);
}

static void put_cache(FILE *out, const struct status_now *now)
{
	double hits = now->rates[COUNTER_CACHE_HITS], misses = now->rates[COUNTER_CACHE_MISSES];

	begin(out, "cache", "Cache");
	if (!now->cache.limit) {
		fputs("<p>There is none: <code>cache-size</code> is 0.</p></section>\n", out);
		return;
	}
	fputs("<dl class=\"tiles\"><div><dt>Hits</dt><dd><b>", out);
	put_share(out, hits, misses);
	fputs("</b> <small>of what it could answer</small></dd></div><div><dt>Memory</dt><dd><b>", out);
	put_bytes(out, now->cache.bytes);
	fputs("</b> <small>of ", out);
	put_bytes(out, now->cache.limit);
	fputs("</small></dd></div><div><dt>Answers</dt><dd><b>", out);
	put_count(out, now->cache.entries);
	fputs("</b></dd></div><div><dt>Made room</dt><dd><b>", out);
	put_count(out, now->cache.evictions);
	fputs("</b> <small>times</small></dd></div></dl></section>\n", out);
}

/* Of who has no part in it there is nothing to say. */
static void put_card(FILE *out, const struct status_now *now)
{
	const double *rates = now->card_rates;
	unsigned int i;

	if (!now->card.there)
		return;
	begin(out, "card", "Card cache");
	fputs("<dl class=\"tiles\"><div><dt>Read hits</dt><dd><b>", out);
	put_share(out, rates[CARD_HOSTED_HITS] + rates[CARD_FROM_PEER] + rates[CARD_FROM_CACHE],
		  rates[CARD_FROM_DISK]);
	fputs("</b> <small>in a node's memory</small></dd></div><div><dt>Serve hits</dt><dd><b>", out);
	put_share(out, rates[CARD_SERVED_CACHED], rates[CARD_SERVED_DISK]);
	fputs("</b> <small>in this node's memory</small></dd></div></dl>\n", out);
	begin_table(out, "card", "What this machine's card.ko has counted." MEAN);
	put_rows_head(out, "Blocks");
	for (i = 0; i < CARD_COUNTERS; i++)
		put_row(out, card_counter_names[i], card_counter_abouts[i], now->card.counts[i], rates[i]);
	end_table(out);
}

static void put_targets(FILE *out, const struct status_now *now)
{
	const char *sep;
	unsigned int i;
	uint64_t set;

	begin(out, "targets", "Top targets");
	begin_caption(out, "targets");
	fputs("Of the last minutes; ", out);
	put_count(out, now->table.used);
	fputs(" of at most ", out);
	put_count(out, now->table.capacity);
	fputs(" targets are remembered.", out);
	end_caption(out);
	fputs("<th scope=\"col\">Target</th><th scope=\"col\">Requests</th><th scope=\"col\" class=\"text\">Nodes</th>"
	      "</tr></thead><tbody>\n", out);
	for (i = 0; i < now->target_count; i++) {
		fputs("<tr><th scope=\"row\" class=\"target\">", out);
		html_put(out, now->targets[i].text);
		fputs("</th><td>", out);
		put_count(out, now->targets[i].count);
		fputs("</td><td class=\"text\">", out);
		for (sep = "", set = now->targets[i].nodes; set; set &= set - 1, sep = ", ") {
			fputs(sep, out);
			html_put(out, now->nodes[__builtin_ctzll(set)].name);
		}
		fputs("</td></tr>\n", out);
	}
	if (!now->target_count)
		fputs("<tr><td colspan=\"3\" class=\"text\">None yet.</td></tr>", out);
	end_table(out);
}

void status_html_write(FILE *out, const struct status_now *now)
{
	put_overview(out, now);
	put_nodes(out, now);
	put_front_ends(out, now);
	put_targets(out, now);
	put_latency(out, now);
	put_decisions(out, now);
	put_answers(out, now);
	put_cache(out, now);
	put_card(out, now);
	put_connections(out, now);
}
