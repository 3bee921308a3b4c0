/* SPDX-License-Identifier: GPL-2.0 */
/* Results for people and, as JSON, for programs. Return 0, or 1 when writing failed. */
#ifndef LARDSIM_REPORT_H
#define LARDSIM_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include "cluster.h"

int report_result(FILE *out, const char *policy, const struct sim_params *p,
		  const struct sim_result *r, bool json);
/* What a training phase showed, and the T_low to take. */
int report_training(FILE *out, const struct training *t, double busy, bool json);
int report_facts(FILE *out, const struct trace *t, const struct trace_facts *facts, bool json);

#endif
