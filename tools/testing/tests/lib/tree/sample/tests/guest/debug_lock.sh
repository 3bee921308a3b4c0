#!/bin/bash
# kernel: debug
modprobe flt_faulty
echo lock >/sys/module/flt_faulty/parameters/fault
