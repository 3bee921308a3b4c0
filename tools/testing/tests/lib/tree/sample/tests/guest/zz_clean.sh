#!/bin/bash
# kernel: debug
# Nothing wrong here: reports of other tests must not be charged to it.
modprobe flt_faulty
