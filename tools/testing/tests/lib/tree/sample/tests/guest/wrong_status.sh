#!/bin/bash
# kernel: stock
# An exit status counts although all points passed.
echo "ok 1 - right"
echo 1..1
exit 3
