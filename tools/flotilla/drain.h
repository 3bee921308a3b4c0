/* SPDX-License-Identifier: GPL-2.0 */
/* Connections that are typed away from a node, at the front-end. */
#ifndef FLOTILLA_DRAIN_H
#define FLOTILLA_DRAIN_H

#include "cli.h"

/* flotilla node drain, flotilla conn move */
int node_drain(struct cli *cli, int argc, char **argv);
int conn_move(struct cli *cli, int argc, char **argv);

#endif
