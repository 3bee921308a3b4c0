# SPDX-License-Identifier: GPL-2.0
"""Network namespaces (tools/testing/lib/nets.py) with what flotilla.ko has in them: sysfs and netlink."""
import atexit
import os
import tempfile

import patience                                         # noqa: F401  # finds nets
import nets
from nets import CLONE_NEWNET, LIBC, MNT_DETACH, add_namespace, batch, call, delete_namespace, inside, run  # noqa: F401

from fltnl import Flotilla


class SysfsView:
    """A mount of sysfs made inside a namespace: sysfs shows the mounter's one."""
    views = {}

    def __init__(self, name):
        self.path = tempfile.mkdtemp(prefix="sysfs-")
        with inside(name):
            call(LIBC.mount(b"sysfs", self.path.encode(), b"sysfs", 0, None))
        atexit.register(self.close)

    @classmethod
    def of(cls, name):
        if name not in cls.views:
            cls.views[name] = cls(name)
        return cls.views[name]

    def open(self, path, mode):
        return open(os.path.join(self.path, "class/flotilla", path), mode)

    def close(self):
        LIBC.umount2(self.path.encode(), MNT_DETACH)
        os.rmdir(self.path)


class Net(nets.Net):
    """With the attributes of /sys/class/flotilla."""

    @staticmethod
    def sysfs(name, path, mode="r"):
        """An open attribute /sys/class/flotilla/PATH as the namespace sees it."""
        return SysfsView.of(name).open(path, mode)


def flotilla(name):
    with inside(name):
        return Flotilla()
