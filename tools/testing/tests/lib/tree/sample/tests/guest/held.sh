#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# held: both it would fail
exit 1
