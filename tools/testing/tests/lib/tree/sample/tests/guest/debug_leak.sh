#!/bin/bash
# kernel: debug
modprobe flt_faulty
echo leak >/sys/module/flt_faulty/parameters/fault
