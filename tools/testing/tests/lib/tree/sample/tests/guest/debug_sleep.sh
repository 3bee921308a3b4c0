#!/bin/bash
# kernel: debug
modprobe flt_faulty
echo sleep >/sys/module/flt_faulty/parameters/fault
