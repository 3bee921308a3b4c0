#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug a minute there
# cpus: 2
"""Any program is told the same with the preload library as without it, whatever it does to its epoll.

Each claim is a case of preload_case, run without the library and with it; what they print must be the same.
USELECT_PRELOAD names another library. USELECT_ROUNDS and USELECT_SEED: of the random one.
"""
import errno
import functools
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(TOP, "splice", "tests", "lib"))
sys.path.insert(1, os.path.join(TOP, "kmod", "tests", "lib"))
from ssp import load, unload, wait_for  # noqa: E402
import kit  # noqa: E402

LIBRARY = os.environ.get("USELECT_PRELOAD") or os.path.realpath(os.path.join(TOP, "build/lib/libuselect-preload.so"))
# In these the library must have given answers of its own: else they show nothing.
HELPED = """copies_of_the_epoll numbers_are_used_again data_is_what_the_program_says child_by_raw_clone child_by_fork
child_by_vfork changes_by_io_uring epoll_within_an_epoll edges_and_one_shots hidden_numbers_are_taken
closed_numbers_are_not_there table_of_its_own signal_handlers_wait_and_change waiting_threads_are_cancelled
sleepers_are_woken program_in_a_sandbox random_changes_by_all_ways thread_is_cancelled_while_the_library_registers
threads_wait_while_the_library_registers table_of_its_own_before_all
children_are_made_while_an_epoll_is_closed""".split()


def run(case, library):
    env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if library:
        env["LD_PRELOAD"] = library
    try:
        done = subprocess.run([os.path.join(TOP, "build/tests/preload_case"), case], env=env, capture_output=True,
                              text=True, timeout=2 * kit.PATIENCE, check=False)
    except subprocess.TimeoutExpired as late:
        return f"{(late.stdout or b'').decode()}hangs\n", 0
    answers = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("answers")]
    return f"{done.stdout}status {done.returncode}\n", (answers or [0])[-1]


def same(case):
    plain, _ = run(case, None)
    preloaded, answers = run(case, LIBRARY)
    print(f"# {answers} answers without a call")
    if not plain.endswith("status 0\n"):
        raise AssertionError(f"without the library:\n{plain}")
    if plain != preloaded:
        raise AssertionError(f"without the library:\n{plain}with it:\n{preloaded}")
    if case == "changes_by_io_uring" and "add 0\n" not in plain:
        raise AssertionError(f"io_uring changed nothing:\n{plain}")
    if not answers:
        raise AssertionError("the library has done nothing")


def ftrace(text):
    try:
        with open("/proc/sys/kernel/ftrace_enabled", "w", encoding="ascii") as f:
            f.write(text)
        return True
    except OSError as why:
        if why.errno == errno.EOPNOTSUPP:
            raise kit.Skip("this kernel's ftrace cannot be switched off") from why
        # The probes stay for a moment after the last one that they served.
        kit.equal("errno", why.errno, errno.EBUSY)
        return False


def nothing_is_done_where_the_kernel_cannot_follow():
    wait_for("ftrace off", lambda: ftrace("0"))
    try:
        for case in ("copies_of_the_epoll", "threads_wait_while_the_library_registers"):
            plain, _ = run(case, None)
            preloaded, answers = run(case, LIBRARY)
            kit.equal(f"what {case} prints", preloaded, plain)
            kit.equal(f"answers without a call to {case}", answers, 0)
    finally:
        ftrace("1")


if __name__ == "__main__":
    if not os.path.exists(LIBRARY):
        sys.exit(f"no {LIBRARY}")
    load("flotilla", "uselect")
    claims = [(name, functools.partial(same, name)) for name in HELPED]
    claims.append(("nothing_is_done_where_the_kernel_cannot_follow", nothing_is_done_where_the_kernel_cannot_follow))
    sys.exit(kit.run(claims, last=[
        ("the_module_unloads", lambda: wait_for("rmmod uselect", lambda: unload("uselect")))]))
