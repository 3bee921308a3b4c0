#!/bin/bash
# kernel: debug
modprobe flt_faulty
echo lock >/sys/module/flt_faulty/parameters/fault
# The guest ends with the report.
sleep 60
