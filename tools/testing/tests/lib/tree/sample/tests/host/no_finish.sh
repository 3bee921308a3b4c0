#!/bin/bash
. "$FLT_TOP/tools/testing/lib.sh"
true
