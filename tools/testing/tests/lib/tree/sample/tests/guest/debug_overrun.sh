#!/bin/bash
# kernel: debug
modprobe flt_faulty
echo overrun >/sys/module/flt_faulty/parameters/fault
