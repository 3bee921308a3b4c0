"""A disk that takes its time, for flash: slow_disk.c, preloaded."""
import atexit
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PRELOAD = None


def slow_disk(ms=300, **more):
    """The environment of a slow disk, built once; what @more may be, slow_disk.c says."""
    global PRELOAD
    if PRELOAD is None:
        d = tempfile.mkdtemp(prefix="flash-slow-")
        atexit.register(shutil.rmtree, d)
        PRELOAD = os.path.join(d, "slow_disk.so")
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", PRELOAD,
                        os.path.join(HERE, "slow_disk.c"), "-ldl"], check=True)
    if loop_waited():
        os.unlink(PRELOAD + ".stalled")
    return dict(os.environ, LD_PRELOAD=PRELOAD, SLOW_MS=str(ms), SLOW_STALLED=PRELOAD + ".stalled", **more)


def loop_waited():
    """Since slow_disk() was called, a loop has waited for that disk."""
    return os.path.exists(PRELOAD + ".stalled")
