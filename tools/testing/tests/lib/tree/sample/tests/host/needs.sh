#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
. "$FLT_TOP/tools/testing/lib.sh"
need bash no-such-program
check "never asked" false
finish
