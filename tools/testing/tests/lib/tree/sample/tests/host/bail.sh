#!/bin/bash
echo 1..1
echo "ok 1 - right"
echo "Bail out! the rest makes no sense"
