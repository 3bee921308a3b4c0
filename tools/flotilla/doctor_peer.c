// SPDX-License-Identifier: GPL-2.0
/*
 * flotilla doctor: versions, clocks, and what the doctors of other nodes have found. All of that is what the peer
 * says of itself over its link; it is shown and nothing more.
 */
#include <inttypes.h>
#include <string.h>
#include "doctor.h"
#include "machine.h"

/* Beyond this logs of two nodes cannot be read side by side, and certificates come to be too new. */
#define CLOCK_US	1000000

static void age_text(uint32_t seconds, char *text, size_t size)
{
	if (seconds < 120)
		snprintf(text, size, "%" PRIu32 " s", seconds);
	else if (seconds < 7200)
		snprintf(text, size, "%" PRIu32 " minutes", seconds / 60);
	else
		snprintf(text, size, "%" PRIu32 " hours", seconds / 3600);
}

static const char *plural(uint32_t number)
{
	return number == 1 ? "" : "s";
}

static void look_at_own_version(struct doctor *d)
{
	struct about about = { "", "" };

	if (!first_line("/sys/module/flotilla/version", d->version, sizeof(d->version)))
		return;
	if (strcmp(d->version, FLT_VERSION)) {
		doctor_found(&about, "flotilla.ko is %s, this program %s", d->version, FLT_VERSION);
		doctor_mend(&about, "# install the modules of this version, and load them");
	} else {
		doctor_found(&about, "flotilla.ko and this program are %s", d->version);
	}
	doctor_say(d, about.mend[0] ? WARNING : FINE, "version", &about);
}

static void look_at_version(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "", "" };

	if (!d->version[0] || !strcmp(d->version, node->version))
		return;
	doctor_found(&about, "it runs version %s, this node %s", node->version, d->version);
	doctor_mend(&about, "# install the same version on %s and here", node->name);
	doctor_say(d, WARNING, subject, &about);
}

static void look_at_clock(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	uint64_t off = node->clock_us < 0 ? -(uint64_t)node->clock_us : (uint64_t)node->clock_us;
	struct about about = { "", "" };
	bool far = off > (uint64_t)node->clock_error_us + CLOCK_US;

	doctor_found(&about, "its clock is %.3f s %s this node's, give or take %.3f s", off / 1e6,
		     node->clock_us < 0 ? "behind" : "ahead of", node->clock_error_us / 1e6);
	if (far)
		doctor_mend(&about, "# timedatectl set-ntp true, on %s or here: which of the two is wrong?", node->name);
	doctor_say(d, far ? WARNING : FINE, subject, &about);
}

static void look_at_verdict(struct doctor *d, const struct flt_node_info *node, const char *subject)
{
	struct about about = { "", "" };
	char age[32];

	if (!node->examined) {
		doctor_found(&about, "nobody has examined it yet");
		doctor_mend(&about, "# on %s, as root: flotilla doctor", node->name);
		return doctor_elsewhere(d, FINE, subject, &about);
	}
	age_text(node->age_s, age, sizeof(age));
	if (!node->faults && !node->warnings) {
		doctor_found(&about, "its own doctor, %s ago, found nothing wrong", age);
		return doctor_elsewhere(d, FINE, subject, &about);
	}
	doctor_found(&about, "its own doctor, %s ago, found %" PRIu32 " fault%s and %" PRIu32 " warning%s: %s", age,
		     node->faults, plural(node->faults), node->warnings, plural(node->warnings), node->wrong);
	doctor_mend(&about, "# on %s, as root: flotilla doctor problems", node->name);
	doctor_elsewhere(d, node->faults ? FAULT : WARNING, subject, &about);
}

void doctor_peers(struct doctor *d)
{
	char subject[FLT_NAME_MAX + 8];
	size_t i;

	look_at_own_version(d);
	for (i = 0; i < d->nr_nodes; i++) {
		const struct flt_node_info *node = &d->nodes[i];

		if (!node->version[0])
			continue;
		snprintf(subject, sizeof(subject), "node %s", node->name);
		look_at_version(d, node, subject);
		look_at_clock(d, node, subject);
		look_at_verdict(d, node, subject);
	}
}
