#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 800
# A front-end's lardd ends, its handoff.ko is unloaded and loaded anew, while a standby has its address: two kernels.
. "$FLT_TOP/tools/testing/lib.sh"
need keepalived

here=$FLT_TOP/tools/testing/e2e
. "$here/guests.sh"

guests 700 fe="bash $here/reload_front.sh" rest="bash $here/reload_rest.sh"
# shellcheck disable=SC2154 # guests sets it
grep -h '^# [0-9]* answers' "$results/rest.log"
finish
