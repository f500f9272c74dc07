"""The script that runs the folder's browser, with the folder as its root.

The folder's libc is Debian's, and the machine's may be older: so the browser gets a root of its own, in namespaces of
its own that end with it. It needs root or user namespaces, as Slurm's pods of the local cloud do.
"""

from pathlib import Path

LAUNCHER = "chromium"
"""In the folder: what a driver of browsers starts in place of one."""

_SCRIPT = """\
#!/bin/sh
# The folder that this script is in becomes the root of the browser; /tmp is the machine's, for profiles and downloads.
root=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P) || exit 1
if [ "$(id -u)" = 0 ]; then user=; else user=--map-root-user; fi
exec unshare $user --mount --propagation private sh -c '
root=$1
shift
for each in dev proc sys tmp; do mount --rbind "/$each" "$root/$each" || exit 1; done
exec chroot "$root" /usr/lib/chromium/chromium-headless-shell "$@"' sh "$root" "$@"
"""


def write_launcher(folder: Path) -> None:
    """Write the script into a folder that holds the packages of a browser."""
    for name in ("dev", "proc", "sys", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    script = folder / LAUNCHER
    script.write_text(_SCRIPT, encoding="utf-8")
    script.chmod(0o755)
