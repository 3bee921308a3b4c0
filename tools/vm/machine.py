# SPDX-License-Identifier: GPL-2.0
"""What a guest is made of: a kernel with its modules, an initramfs, a QEMU command line."""
import fcntl
import hashlib
import lzma
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
# What mounting the host's tree takes, where the kernel has it as modules, and a network card; dependencies first.
BOOT_MODULES = ("netfs", "9pnet", "9pnet_virtio", "9p", "overlay")
NET_MODULES = ("failover", "net_failover", "virtio_net")

# First lines of what the kernel says when something is wrong with it.
REPORT = re.compile(
    r"WARNING: |BUG: |BUG [\w-]+ \(|Oops|KASAN: |UBSAN: |KCSAN: "
    r"|kmemleak: (?!Kernel memory leak detector|Automatic|Cannot allocate a scan area)"
    r"|INFO: (task|rcu|possible|trying to register|inconsistent|lockdep)|Kernel panic|general protection fault"
    r"|Unable to handle|unable to handle|refcount_t: |list_(add|del) corruption|ODEBUG: |suspicious RCU usage"
    r"|possible (circular|recursive) locking|inconsistent lock state|sleeping function called|soft lockup"
    r"|hard LOCKUP|rcu_(preempt|sched).*(stall|detected)|scheduling while atomic|Kernel memory leak|leaked reference"
    r"|Attempt to release|page_pool_release_retry"
    r"|nobody cared|page dumped because|bad page state|unregister_netdevice: waiting")


# Nobody can mend it from outside: tls.ko of 7.3 says so of whoever sets keys inside the kernel.
KNOWN = re.compile(r"WARNING: include/linux/sockptr\.h:\d+ at tls_setsockopt\+")

OURS = re.compile(r"\[(flotilla|afpa\w*|handoff|uselect|sksplice|iolite|card\w*|flt_\w+)\]")

# Of two who print at once: the console's own flags, whoever prints.
PRINTING = re.compile(r"BUG: KCSAN: data-race in (console_|vprintk)\w+ / (console_|vprintk)\w+")


class Refused(Exception):
    """A sentence for the user."""


def cache():
    """The directory that tools/build/kernel fills."""
    if os.environ.get("FLOTILLA_CACHE"):
        return Path(os.environ["FLOTILLA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flotilla"


def without_foreign_races(text):
    """A console log without the data races in which no module of ours has a part: the kernel has many of its own."""
    parts = re.split(r"^(.*={60,}.*\n)", text, flags=re.M)
    return "".join(part for part in parts if "BUG: KCSAN: " not in part or
                   (OURS.search(part) and not PRINTING.search(part)))


def reports(text, context=40):
    """Lines of every kernel report in a console log, each with what follows it."""
    found, room = [], 0
    text = without_foreign_races(text)
    for line in text.splitlines():
        if REPORT.search(line) and not KNOWN.search(line):
            room = context
        if room:
            found.append(line)
            room -= 1
        if "end trace" in line:
            room = 0
    return found


def waiting(text):
    """Of a log that lists all tasks, those in uninterruptible sleep, each with its stack."""
    found, on = [], False
    for line in text.splitlines():
        if "task:" in line and " state:" in line:
            on = " state:D" in line
        elif "Sched Debug" in line or "Showing all locks" in line:
            on = False
        if on:
            found.append(line)
    return found


class Kernel:
    """A kernel that can be booted: image, release and a /lib/modules tree with our modules in it."""

    def __init__(self, name):
        self.name = name
        self.checks = name in ("debug", "kcsan")
        self.root = cache() / ("kernel" if name == "stock" else name) / "current"
        if not (self.root / ".complete").exists():
            raise Refused("there is no kernel for guests; run 'make deps'" if name == "stock"
                          else f"there is no {name} kernel; run 'make {name}-kernel'")
        self.root = self.root.resolve()
        self.release = next((self.root / "lib/modules").iterdir()).name
        self.image = self.root / "vmlinux"
        if not self.image.exists():
            unpack_image(self.root / f"boot/vmlinuz-{self.release}", self.image)
        self.built = TOP / "build" / ("modules" if name == "stock" else f"{name}/modules")

    def module_root(self):
        """A /lib/modules for the guest: the kernel's own modules and ours, indexed by depmod."""
        tree = TOP / "build/guest" / self.name
        wanted = repr([(str(self.root))] + sorted(
            (p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in self.built.glob("*.ko")))
        tree.parent.mkdir(parents=True, exist_ok=True)
        # Guests that start together: one makes it, the others wait.
        with open(tree.with_name(f"{self.name}.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = tree / "stamp"
            if not stamp.exists() or stamp.read_text() != wanted:
                self.index(tree, wanted)
        return tree / "lib/modules"

    def index(self, tree, wanted):
        new = tree.with_name(f"{self.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        modules = new / "lib/modules" / self.release
        modules.mkdir(parents=True)
        stock = self.root / "lib/modules" / self.release
        for entry in stock.iterdir():
            if entry.name in ("kernel", "modules.order", "modules.builtin", "modules.builtin.modinfo"):
                (modules / entry.name).symlink_to(entry)
        (modules / "flotilla").mkdir()
        for module in self.built.glob("*.ko"):
            (modules / "flotilla" / module.name).symlink_to(module)
        subprocess.run([tool("depmod"), "-b", new, self.release], check=True)
        (new / "stamp").write_text(wanted)
        shutil.rmtree(tree, ignore_errors=True)
        new.rename(tree)

    def boot_files(self):
        """Modules for the initramfs, unpacked: the guest would take longer over it."""
        found = {}
        for path in (self.root / "lib/modules" / self.release / "kernel").rglob("*.ko*"):
            name = path.name.split(".")[0]
            if name in BOOT_MODULES + NET_MODULES:
                data = path.read_bytes()
                found[name] = unsigned(lzma.decompress(data) if path.suffix == ".xz" else data)
        return [(f"{directory}/{i}-{name}.ko", found[name])
                for directory, names in (("modules", BOOT_MODULES), ("modules/net", NET_MODULES))
                for i, name in enumerate(names) if name in found]


def tool(name):
    """A program that may live in a directory of root's."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Refused(f"{name} is not installed; run 'make deps'")
    return path


def unpack_image(compressed, image):
    """Take the ELF kernel out of a bzImage: the guest would spend a second on it at each boot."""
    data = compressed.read_bytes()
    start = (data[0x1f1] + 1) * 512 + int.from_bytes(data[0x248:0x24c], "little")
    payload = data[start:start + int.from_bytes(data[0x24c:0x250], "little") - 4]
    unpackers = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz", b"\x1f\x8b\x08\x00": "gzip"}
    if payload[:4] not in unpackers:
        raise Refused(f"{compressed} is packed in a way that is not known here")
    elf = subprocess.run([tool(unpackers[payload[:4]]), "-dc"], input=payload, stdout=subprocess.PIPE,
                         check=True).stdout
    temporary = image.with_name(f"{image.name}.{os.getpid()}")
    temporary.write_bytes(elf)
    temporary.rename(image)


def unsigned(module):
    """A module without its signature, which an emulated CPU takes 50 ms to verify."""
    magic = b"~Module signature appended~\n"
    if not module.endswith(magic):
        return module
    end = len(module) - len(magic)
    return module[:end - 12 - int.from_bytes(module[end - 4:end], "big")]


def cpio(files):
    """A newc archive of (name, data, mode); the kernel takes several of them one after another."""
    out = bytearray()

    def add(name, data, mode):
        name = name.encode() + b"\0"
        out.extend(b"070701" + b"".join(b"%08X" % v for v in (
            0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)))
        out.extend(name)
        out.extend(bytes(-len(out) % 4))
        out.extend(data)
        out.extend(bytes(-len(out) % 4))

    for name, data, mode in files:
        add(name, data, mode)
    add("TRAILER!!!", b"", 0)
    return bytes(out)


def base_initramfs(kernel):
    """busybox, init and the modules that mounting the root takes; cached by content."""
    init = (HERE / "init").read_bytes()
    busybox = Path(tool("busybox")).read_bytes()
    key = hashlib.sha256(init + busybox + Path(__file__).read_bytes() + str(kernel.root).encode()).hexdigest()[:16]
    path = kernel.root / f"initramfs-{key}"
    if not path.exists():
        names = ("bin", "dev", "proc", "sys", "modules", "modules/net", "run")
        directories = [(name, b"", stat.S_IFDIR | 0o755) for name in names]
        files = [("init", init, stat.S_IFREG | 0o755), ("bin/busybox", busybox, stat.S_IFREG | 0o755)]
        files += [(n, d, stat.S_IFREG | 0o644) for n, d in kernel.boot_files()]
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_bytes(cpio(directories + files))
        temporary.rename(path)
    return path.read_bytes()


def kvm_works(kernel):
    """Whether /dev/kvm can run a guest; some hosts have one that only hangs. Tried once a host boot."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    answer = cache() / "kvm"
    if answer.exists() and answer.read_text().split()[0] == boot:
        return answer.read_text().split()[1] == "yes"
    initramfs = cache() / f"kvm-probe.{os.getpid()}"
    initramfs.write_bytes(base_initramfs(kernel))
    command = [tool("qemu-system-x86_64"), "-accel", "kvm", "-cpu", "host", "-m", "512M", "-nodefaults",
               "-display", "none", "-no-reboot", "-kernel", str(kernel.image), "-initrd", str(initramfs),
               "-append", "quiet panic=-1 reboot=t flotilla.probe"]
    try:
        works = subprocess.run(command, timeout=10, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        works = False
    finally:
        initramfs.unlink()
    answer.write_text(f"{boot} {'yes' if works else 'no'}\n")
    return works


class Machine:
    """One guest, from its QEMU command line to its exit."""

    def __init__(self, kernel, args, work, log):
        self.work = work
        self.kernel = kernel
        self.out = self.err = None
        self.boot_seconds = None
        self.status = None
        self.keep = []
        accel = args.accel or ("kvm" if kvm_works(kernel) else "tcg")
        log.write_text("")
        initramfs = work / "initramfs"
        initramfs.write_bytes(base_initramfs(kernel) + self.run_files(args))
        append = ["console=ttyS0", "loglevel=5", "panic=-1", "reboot=t", "mitigations=off", "nokaslr",
                  "rcupdate.rcu_expedited=1", "audit=0", "apparmor=0", "selinux=0", "no_timer_check",
                  "cryptomgr.notests", "initcall_blacklist=jent_mod_init", "oops=panic",
                  # An NMI is how a silent guest is asked where it stands: all tasks, all CPUs.
                  "unknown_nmi_panic", "panic_print=0x41"]
        if kernel.name == "debug":
            append += ["panic_on_warn=1", "kmemleak=on"]
        self.command = [
            tool("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-name", args.name, "-M", "q35", "-accel", accel,
            "-cpu", args.cpu or ("host" if accel.startswith("kvm") else "max"),
            "-smp", str(args.cpus), "-m", args.mem or ("2G" if kernel.checks else "1G"),
            "-kernel", str(kernel.image), "-initrd", str(initramfs),
            "-append", " ".join(append + shlex.split(args.append)),
            "-chardev", f"file,id=console,path={log}", "-serial", "chardev:console",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=monitor,path={work}/monitor,server=on,wait=off", "-mon", "chardev=monitor",
            "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        self.say = self.port("status")
        if args.results:
            args.results.mkdir(parents=True, exist_ok=True)
            self.command += [
                "-fsdev", f"local,id=results,path={args.results.resolve()},security_model=none,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=results,mount_tag=results"]
        for i, net in enumerate(args.net):
            kind, _, rest = net.partition(",")
            options = f"{kind},id=net{i}" + (f",{rest}" if rest else "")
            self.command += ["-netdev", options,
                             "-device", f"virtio-net-pci,netdev=net{i},mac=52:54:00:{mac_tail(args.name, i)}"]
        if args.shell:
            self.command += ["-chardev", "stdio,id=tty,signal=off", "-device", "virtconsole,chardev=tty"]
        else:
            self.out = self.port("out")
            self.err = self.port("err")
        for extra in args.qemu:
            self.command += shlex.split(extra)

    def port(self, name):
        """A virtio port whose other end is a pipe of ours."""
        ours, theirs = os.pipe()
        os.set_inheritable(theirs, True)
        self.keep.append(theirs)
        number = len(self.keep)
        self.command += ["-add-fd", f"fd={theirs},set={number}",
                         "-chardev", f"file,id={name},path=/dev/fdset/{number},append=on",
                         "-device", f"virtserialport,chardev={name},name={name}"]
        return ours

    def run_files(self, args):
        """The archive with this run's command and environment."""
        env = {"FLT_TOP": TOP, "FLT_MODULES": self.kernel.built, "FLT_KERNEL": self.kernel.root,
               "FLT_PROGRAMS": cache() / "programs",
               "FLT_MODULE_ROOT": self.kernel.module_root(), "FLT_KIND": self.kernel.name,
               "FLT_HOSTNAME": args.name, "FLT_RESULTS": "/run/results" if args.results else "",
               "FLT_NET": "1" if args.net else "", "FLT_ADDRESS": args.address,
               "FLT_SHELL": "1" if args.shell else "", "TERM": os.environ.get("TERM", "dumb")}
        for pair in args.env:
            name, _, value = pair.partition("=")
            env[name] = value
        script = " ".join(shlex.quote(word) for word in args.command)
        return cpio([
            ("run/guest-init", (HERE / "guest-init").read_bytes(), stat.S_IFREG | 0o755),
            ("run/cmd", f"exec {script}\n".encode(), stat.S_IFREG | 0o644),
            ("run/env", "".join(f"{k}={shlex.quote(str(v))}\n" for k, v in env.items()).encode(),
             stat.S_IFREG | 0o644)])

    def start(self):
        started = time.monotonic()
        with open(self.work / "qemu", "wb") as errors:
            self.process = subprocess.Popen(
                self.command, stdin=None if self.out is None else subprocess.DEVNULL,
                stdout=None if self.out is None else errors, stderr=errors, pass_fds=self.keep)
        for fd in self.keep:
            os.close(fd)
        self.listener = threading.Thread(target=self.listen, args=(started,), daemon=True)
        self.listener.start()

    def listen(self, started):
        """What guest-init says: that the command starts, and how it ended."""
        with open(self.say, encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if words == ["started"]:
                    self.boot_seconds = time.monotonic() - started
                elif len(words) == 2 and words[0] == "exit":
                    self.status = int(words[1])

    def wait(self):
        """Until QEMU has ended."""
        self.process.wait()
        self.listener.join()

    def ask(self, command):
        """What QEMU's monitor answers, or why it does not."""
        answer = b""
        try:
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(5)
                monitor.connect(str(self.work / "monitor"))
                monitor.sendall(command.encode() + b"\n")
                # A prompt comes before the command and after its answer.
                while answer.count(b"(qemu) ") < 2:
                    data = monitor.recv(65536)
                    if not data:
                        break
                    answer += data
        except OSError as error:
            answer += f"\nmonitor: {error}\n".encode()
        return answer.decode(errors="replace").replace("\r", "")

    def threads(self):
        """Where the threads of QEMU stand in the host."""
        lines = []
        for task in sorted(Path(f"/proc/{self.process.pid}/task").glob("*")):
            try:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                lines.append(f"{(task / 'comm').read_text().strip():16} {fields[0]} ticks {fields[11]}+{fields[12]} "
                             f"in {(task / 'wchan').read_text()}")
            except OSError:
                continue
        return "\n".join(lines)

    def errors(self):
        """What QEMU itself complained about."""
        return (self.work / "qemu").read_text(errors="replace").strip()


def mac_tail(name, index):
    """Stable and different for guests of different names."""
    digest = hashlib.sha256(f"{name}/{index}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in digest[:3])
