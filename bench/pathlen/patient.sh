#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# patient.sh: this network namespace's node waits for others as long as it may. The guests of a benchmark work in turns
# and their clocks do not go alike: what is a second for the one may be a minute for the other.
set -eu

echo 60000 >/sys/class/flotilla/links/heartbeat_ms
sysctl -qw net.flotilla.handoff_timeout_ms=60000 net.flotilla.adopt_deadline_ms=60000
