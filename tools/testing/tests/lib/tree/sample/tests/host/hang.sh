#!/bin/bash
# timeout: 1
sleep 1000
