#!/bin/bash
# kernel: stock
# What uses a module of ours is itself one of ours, and goes first.
modprobe flt_link_test
