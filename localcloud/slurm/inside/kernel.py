"""The few calls of the Linux kernel that Python 3.11 has no function for, and what is mounted for a container."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Without `bus`: there the machine's own devices are, and the node has others.
_SYS = ("class", "devices", "fs", "kernel", "module")
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FOLDERS = {
    "dev": 0o755,
    "home": 0o755,
    "mnt": 0o755,
    "opt": 0o755,
    "proc": 0o555,
    "root": 0o700,
    "run": 0o755,
    "sys": 0o555,
    "tmp": 0o1777,
    "usr": 0o755,
    "var": 0o755,
    "var/cache": 0o755,
    "var/lib": 0o755,
    "var/log": 0o755,
    "var/spool": 0o755,
    "var/tmp": 0o1777,
}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave namespaces for new ones (unshare(2)). A new pid namespace is for children made after this."""
    _check(_libc.unshare(flags), "unshare")


def join(pid: int, *names: str) -> None:
    """Enter namespaces of a process (setns(2)), such as `pid` and `mnt`."""
    descriptors = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]
    for descriptor, name in zip(descriptors, names, strict=True):
        _check(_libc.setns(descriptor, 0), f"setns {name}")
        os.close(descriptor)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (prctl(2))."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def mount(source: str, target: Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        source.encode(), str(target).encode(), kind.encode() if kind else None, flags, options.encode() or None
    )
    _check(result, f"mount {source} on {target}")


def unmount(target: Path) -> None:
    """umount2(2), also of what is in use."""
    _check(_libc.umount2(str(target).encode(), _MNT_DETACH), f"unmount {target}")


def make_private() -> None:
    """Keep this mount namespace's mounts to itself."""
    mount("none", Path("/"), None, _MS_REC | _MS_PRIVATE)


def bind(source: str, target: Path, *, read_only: bool = False) -> None:
    """Show a file or folder at another place, which is made where it is missing."""
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.touch()
    mount(source, target, None, _MS_BIND | _MS_REC)
    if read_only:
        # What the source's own mount forbids may not be allowed again, so it is asked for again.
        kept = os.statvfs(target).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        mount("none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def mount_proc(target: Path) -> None:
    """The process table of this pid namespace."""
    mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def lay_out(root: Path, image: Path, etc: Path) -> None:
    """Make a container's own root: an empty folder with the image's /usr to come and a copy of /etc."""
    root.mkdir(parents=True)
    for name, mode in _FOLDERS.items():
        (root / name).mkdir()
        (root / name).chmod(mode)
    for name, target in _LINKS.items():
        if (image / target).exists():
            (root / name).symlink_to(target)
    shutil.copytree(etc, root / "etc", symlinks=True)


def clear(root: Path) -> None:
    """Remove a container's root once its mounts are gone; refuses to where one is left."""
    if root.exists():
        (root / "usr").rmdir()
        shutil.rmtree(root)


def furnish(root: Path, image: Path, devices: dict[str, str]) -> None:
    """Mount what every container has. `devices`: path below /dev by the file that stands in for it."""
    bind(str(image / "usr"), root / "usr", read_only=True)
    mount_proc(root / "proc")
    mount("tmpfs", root / "sys", "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "mode=755,size=256k")
    for name in _SYS:
        if Path("/sys", name).exists():
            bind(f"/sys/{name}", root / "sys" / name, read_only=True)
    mount("tmpfs", root / "dev", "tmpfs", _MS_NOSUID, "mode=755,size=64k")
    for name in _DEVICES:
        bind(f"/dev/{name}", root / "dev" / name)
    for name, source in devices.items():
        bind(source, root / "dev" / name)
    (root / "dev/pts").mkdir()
    mount("devpts", root / "dev/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (root / "dev" / name).symlink_to(target if name == "fd" else f"/proc/self/{target}")
    (root / "dev/shm").mkdir()
    mount("tmpfs", root / "dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")


def show_gpus(root: Path, models: list[str], cpus: int) -> None:
    """Show GPUs as NVIDIA's driver does in /proc and /sys (what `AutoDetect=nvidia` reads); one without model is gone.

    The first half of them is near the first half of the node's CPUs, the rest near the other.
    """
    mount("tmpfs", root / "proc/driver", "tmpfs", _MS_NOSUID, "mode=755,size=256k")
    halves = (f"0-{max(cpus // 2 - 1, 0)}", f"{cpus // 2}-{cpus - 1}") if cpus > 1 else ("0", "0")
    for number, model in enumerate(models):
        if not model:
            continue
        near = root / f"sys/bus/pci/drivers/nvidia/0000:{number + 1:02x}:00.0"
        near.mkdir(parents=True)
        (near / "local_cpulist").write_text(f"{halves[number * 2 >= len(models)]}\n")
        folder = root / f"proc/driver/nvidia/gpus/0000:{number + 1:02x}:00.0"
        folder.mkdir(parents=True)
        uuid = f"GPU-00000000-0000-0000-0000-{number:012x}"
        (folder / "information").write_text(
            f"Model: \t\t {model}\nIRQ:   \t\t 0\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??.??.??.??.??\n"
            f"Bus Type: \t PCIe\nBus Location: \t 0000:{number + 1:02x}:00.0\nDevice Minor: \t {number}\n"
        )
