"""The lock files: every package file of a folder with its digest, one file per folder and architecture.

```
# how it came to be
slurm 26.05.5
snapshot 20261030T080801Z
<SHA-256> <bytes> pool/main/s/slurm-wlm/slurmctld_26.05.5-1_amd64.deb
...
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.slurm_root.packages import SLURM, Contents, Package, version_of

FOLDER = Path(__file__).parent

_HEAD = "# Written by `python -m tools.slurm_root`; see packages.py for what is chosen.\n"


@dataclass(frozen=True)
class Pin:
    """One package file: its path below a Debian mirror, its size in bytes and its digest."""

    sha256: str
    size: int
    path: str


@dataclass(frozen=True)
class Pins:
    """What a folder is made of.

    `version` is that of its `product`; `snapshot`: a moment (UTC, `20261030T080801Z`) at which Debian's archive had all
    of these files, as snapshot.debian.org names it.
    """

    version: str
    snapshot: str
    files: tuple[Pin, ...]
    product: str = SLURM.product


def lock_name(contents: Contents, arch: str) -> str:
    """The name of the lock file of a folder, for an architecture as Debian calls it: `amd64`, `arm64`."""
    return f"{contents.name}-{arch}.lock"


def of(contents: Contents, packages: Sequence[Package], snapshot: str) -> Pins:
    """Pin the packages of a folder."""
    files = sorted((Pin(package.sha256, package.size, package.path) for package in packages), key=lambda pin: pin.path)
    return Pins(version_of(contents, packages), snapshot, tuple(files), contents.product)


def written(pins: Pins) -> str:
    """The text of a lock file."""
    lines = [f"{pin.sha256} {pin.size} {pin.path}\n" for pin in pins.files]
    return f"{_HEAD}{pins.product} {pins.version}\nsnapshot {pins.snapshot}\n{''.join(lines)}"


def read(text: str) -> Pins:
    """Read the text of a lock file."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    heads = {words[0]: words[1] for words in lines if len(words) == 2}
    files = [Pin(words[0], int(words[1]), words[2]) for words in lines if len(words) == 3]
    (product,) = heads.keys() - {"snapshot"}
    return Pins(heads[product], heads["snapshot"], tuple(files), product)
