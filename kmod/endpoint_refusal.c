// SPDX-License-Identifier: GPL-2.0
/* Names of enum flt_refusal, for messages, counters and tracepoints. */
#include <linux/kernel.h>
#include <linux/module.h>
#include "endpoint.h"

#define FLT_REFUSAL(name, text)	[FLT_REFUSE_##name] = text

static const char *const flt_refusal_names[] = {
	FLT_REFUSAL(NONE, "none"),
	FLT_REFUSAL(NOTTCP, "nottcp"),
	FLT_REFUSAL(STATE, "state"),
	FLT_REFUSAL(SENDQUEUE, "sendqueue"),
	FLT_REFUSAL(OOO, "ooo"),
	FLT_REFUSAL(URGENT, "urgent"),
	FLT_REFUSAL(ULP, "ulp"),
	FLT_REFUSAL(MPTCP, "mptcp"),
	FLT_REFUSAL(PSOCK, "psock"),
	FLT_REFUSAL(MD5, "md5"),
	FLT_REFUSAL(IPOPTIONS, "ipoptions"),
	FLT_REFUSAL(FASTOPEN, "fastopen"),
	FLT_REFUSAL(REPAIR, "repair"),
	FLT_REFUSAL(TOOMUCH, "toomuch"),
	FLT_REFUSAL(FOREIGN, "foreign"),
	FLT_REFUSAL(SHARED, "shared"),
	FLT_REFUSAL(BUSY, "busy"),
	FLT_REFUSAL(CHANGED, "changed"),
	FLT_REFUSAL(FINRECV, "finrecv"),
	FLT_REFUSAL(SCOPE, "scope"),
	FLT_REFUSAL(NOLISTENER, "nolistener"),
	FLT_REFUSAL(FULL, "full"),
	FLT_REFUSAL(DUPLICATE, "duplicate"),
	FLT_REFUSAL(NOROUTE, "noroute"),
	FLT_REFUSAL(NOMEM, "nomem"),
	FLT_REFUSAL(VERSION, "version"),
	FLT_REFUSAL(MALFORMED, "malformed"),
	FLT_REFUSAL(NOTLOCAL, "notlocal"),
	FLT_REFUSAL(POLICY, "policy"),
	FLT_REFUSAL(NODEDOWN, "nodedown"),
	FLT_REFUSAL(TIMEOUT, "timeout"),
	FLT_REFUSAL(ABORTED, "aborted"),
	FLT_REFUSAL(TABLEFULL, "tablefull"),
	FLT_REFUSAL(NONODE, "nonode"),
};

const char *flt_refusal_name(enum flt_refusal why)
{
	if (why >= ARRAY_SIZE(flt_refusal_names) || !flt_refusal_names[why])
		return "unknown";
	return flt_refusal_names[why];
}
EXPORT_SYMBOL_GPL(flt_refusal_name);
