#!/bin/bash
# kernel: debug
# Seen by the kernel that looks for races only.
modprobe flt_faulty
echo race >/sys/module/flt_faulty/parameters/fault
