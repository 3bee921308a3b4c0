// SPDX-License-Identifier: GPL-2.0
/*
 * What nodes tell each other about themselves: the version, the clock, and what `flotilla doctor`
 * found. A peer's words are kept to be shown. Nothing is decided by them.
 *
 * A report goes behind the PONG, so that the time of the PING bounds when the clock was read.
 */

#include <linux/timekeeping.h>
#include <net/genetlink.h>
#include "linkwork.h"
#include "report.h"

/* A peer may ask as often as it likes. */
#define FLT_REPORT_EVERY	HZ

/* What a terminal can show as it is, with its end. */
static bool flt_report_is_text(const char *text, size_t size)
{
	size_t len = strnlen(text, size), i;

	for (i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return len < size;
}

/* It says what is wrong with this node: nobody hears that who has only its peer's address. */
static bool flt_report_is_for(const struct flt_chan *chan)
{
	return chan->features & FLT_FEATURE_REPORT &&
	       (chan->auth != FLT_AUTH_NONE || READ_ONCE(chan->fn->insecure));
}

void flt_report_say(struct flt_chan *chan, const struct flt_ping *ping)
{
	struct flt_report report = {
		.stamp = ping->stamp,
		.age_s = cpu_to_be32(FLT_REPORT_NEVER),
		.version = FLT_VERSION,
	};
	struct flt_net *fn = chan->fn;
	struct flt_verdict *v = &fn->verdict;

	if (!flt_report_is_for(chan) ||
	    (chan->reported && time_before(jiffies, chan->reported + FLT_REPORT_EVERY)))
		return;
	chan->reported = jiffies ?: 1;
	spin_lock(&fn->verdict_lock);
	if (v->there) {
		report.age_s = cpu_to_be32(min_t(u64, ktime_get_boottime_seconds() - v->when,
						 FLT_REPORT_NEVER - 1));
		report.faults = cpu_to_be32(v->faults);
		report.warnings = cpu_to_be32(v->warnings);
		memcpy(report.wrong, v->wrong, sizeof(report.wrong));
	}
	spin_unlock(&fn->verdict_lock);
	report.clock = cpu_to_be64(ktime_get_real_ns());
	flt_chan_say_report(chan, &report);
}

/*
 * It read its clock between our PING and now. A stamp that is no PING's of ours says nothing of the
 * clock, and spoils only what is shown of the node that sent it.
 */
static void flt_report_compare(struct flt_told *told, const struct flt_report *report)
{
	u64 now = ktime_get_ns(), then = be64_to_cpu(report->stamp);
	s64 ahead = be64_to_cpu(report->clock) - ktime_get_real_ns();
	u64 trip = now - min(then, now);

	told->clock_us = div_s64(ahead + (s64)(trip / 2), NSEC_PER_USEC);
	told->clock_error_us = min_t(u64, div_u64(trip / 2, NSEC_PER_USEC), U32_MAX);
}

u32 flt_report_take(struct flt_link *link, const void *body, u32 len)
{
	const struct flt_report *report = body;
	struct flt_told told = { .there = true };
	u32 age;

	if (len < sizeof(*report))
		return FLT_WHY_LENGTH;
	if (!flt_report_is_text(report->version, sizeof(report->version)) ||
	    !flt_report_is_text(report->wrong, sizeof(report->wrong)))
		return FLT_WHY_BODY;
	age = be32_to_cpu(report->age_s);
	flt_report_compare(&told, report);
	strscpy(told.version, report->version);
	if (age != FLT_REPORT_NEVER) {
		told.verdict.there = true;
		told.verdict.when = ktime_get_boottime_seconds() - age;
		told.verdict.faults = be32_to_cpu(report->faults);
		told.verdict.warnings = be32_to_cpu(report->warnings);
		strscpy(told.verdict.wrong, report->wrong);
	}
	spin_lock(&link->lock);
	link->told = told;
	spin_unlock(&link->lock);
	return FLT_WHY_NONE;
}

void flt_report_forget(struct flt_link *link)
{
	spin_lock(&link->lock);
	link->told.there = false;
	spin_unlock(&link->lock);
}

int flt_report_put_attrs(struct sk_buff *skb, struct flt_link *link)
{
	const struct flt_verdict *v;
	struct flt_told told;

	spin_lock(&link->lock);
	told = link->told;
	spin_unlock(&link->lock);
	if (!told.there)
		return 0;
	if (nla_put_string(skb, FLT_A_NODE_VERSION, told.version) ||
	    nla_put_s64(skb, FLT_A_NODE_CLOCK_US, told.clock_us, FLT_A_PAD) ||
	    nla_put_u32(skb, FLT_A_NODE_CLOCK_ERROR_US, told.clock_error_us))
		return -EMSGSIZE;
	v = &told.verdict;
	if (!v->there)
		return 0;
	if (nla_put_u32(skb, FLT_A_REPORT_FAULTS, v->faults) ||
	    nla_put_u32(skb, FLT_A_REPORT_WARNINGS, v->warnings) ||
	    nla_put_string(skb, FLT_A_REPORT_WRONG, v->wrong) ||
	    nla_put_u32(skb, FLT_A_REPORT_AGE_S,
			min_t(u64, ktime_get_boottime_seconds() - v->when, U32_MAX)))
		return -EMSGSIZE;
	return 0;
}

int flt_report_set(struct sk_buff *skb, struct genl_info *info)
{
	struct flt_net *fn = flt_net(genl_info_net(info));
	struct nlattr *wrong = info->attrs[FLT_A_REPORT_WRONG];
	struct flt_verdict v = { .there = true, .when = ktime_get_boottime_seconds() };

	if (GENL_REQ_ATTR_CHECK(info, FLT_A_REPORT_FAULTS) ||
	    GENL_REQ_ATTR_CHECK(info, FLT_A_REPORT_WARNINGS)) {
		NL_SET_ERR_MSG(info->extack, "how many faults and how many warnings were found?");
		return -EINVAL;
	}
	v.faults = nla_get_u32(info->attrs[FLT_A_REPORT_FAULTS]);
	v.warnings = nla_get_u32(info->attrs[FLT_A_REPORT_WARNINGS]);
	if (wrong && (nla_strscpy(v.wrong, wrong, sizeof(v.wrong)) < 0 ||
		      !flt_report_is_text(v.wrong, sizeof(v.wrong)))) {
		NL_SET_ERR_MSG_ATTR(info->extack, wrong,
				    "names have up to 191 printable characters of ASCII");
		return -EINVAL;
	}
	spin_lock(&fn->verdict_lock);
	fn->verdict = v;
	spin_unlock(&fn->verdict_lock);
	return 0;
}
