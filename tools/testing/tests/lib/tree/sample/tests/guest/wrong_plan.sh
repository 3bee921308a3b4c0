#!/bin/bash
# kernel: stock
# Points that never came count.
echo 1..3
echo "ok 1 - right"
