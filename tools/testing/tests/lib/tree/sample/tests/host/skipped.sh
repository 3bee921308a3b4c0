#!/bin/bash
echo "no such thing here"
exit 4
