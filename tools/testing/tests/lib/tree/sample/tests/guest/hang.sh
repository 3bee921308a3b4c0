#!/bin/bash
# kernel: stock
# timeout: 2
sleep 1000
