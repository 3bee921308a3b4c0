/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's test harness gives each test 30 seconds, too few for guests on a busy machine. What
 * hangs is ended by the time-out of the whole file. Comes before everything in tests for guests.
 */
#ifndef FLT_TESTING_KSELFTEST_H
#define FLT_TESTING_KSELFTEST_H

#include <kselftest_harness.h>

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 3600

#endif
