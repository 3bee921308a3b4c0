#!/bin/bash
# kernel: stock
# What it said is gone.
echo "not ok 1 - wrong"
echo 1..1
rm /tmp/test.log
