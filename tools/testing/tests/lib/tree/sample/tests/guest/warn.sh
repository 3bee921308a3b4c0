#!/bin/bash
# kernel: stock
modprobe flt_faulty
echo warn >/sys/module/flt_faulty/parameters/fault
