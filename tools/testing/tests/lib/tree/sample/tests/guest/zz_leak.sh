#!/bin/bash
# kernel: debug
# The leak is found when the guest ends; the tests before and after it must not be charged with it.
modprobe flt_faulty
echo leak >/sys/module/flt_faulty/parameters/fault
