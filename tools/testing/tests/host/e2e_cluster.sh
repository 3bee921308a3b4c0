#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 800
# Four kernels: client, front-end, a back-end with nginx and one with flash, on one Ethernet segment.
. "$FLT_TOP/tools/testing/lib.sh"
need nginx curl

here=$FLT_TOP/tools/testing/e2e
. "$here/guests.sh"

guests 600 be1="bash $here/backend.sh nginx" be2="bash $here/backend.sh flash" \
	fe="bash $here/frontend.sh" client="bash $here/client.sh"
finish
