"""Which packages the folder holds, and what they depend on: pure functions over Debian's package lists.

The format is Debian's control file format (Debian Policy, chapters 5 and 7).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tools.errors import DownloadError

LINE = "26.05."
"""The line of Slurm that this project is written for; a mirror's newer one is refused."""

SUITES = ("forky", "bookworm", "trixie")
"""Debian's releases that packages come from, by code name; a lock's moment is that of the first."""

WANTED: Mapping[str, tuple[str, ...]] = {
    "forky": (
        "base-files",
        "bash",
        "coreutils",
        "findutils",
        "grep",
        "gzip",
        "hostname",
        "iproute2",
        "libncurses6",  # of MariaDB's client, which is the older Debian's
        "libpython3-stdlib",
        "mawk",
        "openssh-client",
        "openssh-server",
        "procps",
        "python3-minimal",  # the actor is written in it
        "sackd",
        "sed",
        "slurm-client",
        "slurm-wlm-basic-plugins",
        "slurm-wlm-jwt-plugin",
        "slurm-wlm-mysql-plugin",
        "slurmctld",
        "slurmd",
        "slurmdbd",
        "slurmrestd",
        "tar",
        "util-linux",
    ),
    "bookworm": ("mariadb-server-core", "mariadb-client-core", "mariadb-client", "libaio1", "liburing2"),
}

FOLLOWED = ("forky",)
"""Suites whose packages bring what they depend on; the older Debian's server runs on the newer one's libraries."""

LEFT_OUT = frozenset(
    {
        # Set packages up or start services, which nobody does here.
        "adduser",
        "debconf",
        "dpkg",
        "init-system-helpers",
        "perl",
        "perl-base",
        "runit-helper",
        "sysvinit-utils",
        "ucf",
        # Authentication is Slurm's own (auth/slurm), and there is no service manager.
        "libpam-systemd",
        "munge",
        "systemd",
        # Character sets and settings that none of the programs reads.
        "libc-gconv-modules-extra",
        "mariadb-common",
        "media-types",
        "mysql-common",
        "tzdata",
    }
)


@dataclass(frozen=True)
class Contents:
    """What one folder holds.

    Attributes:
        name: also that of its folder and of its lock files.
        what: what a machine without it lacks, with its verb.
        wanted: packages by suite.
        followed: suites whose packages bring what they depend on.
        left_out: packages that nobody gets though others depend on them.
        product, package: what gives the folder its version, and the package that has it.
        line: how that version has to begin.
    """

    name: str
    what: str
    wanted: Mapping[str, tuple[str, ...]]
    followed: tuple[str, ...] = FOLLOWED
    left_out: frozenset[str] = LEFT_OUT
    product: str = "slurm"
    package: str = "slurmctld"
    line: str = LINE


SLURM = Contents("slurm", "Slurm's daemons are", WANTED)

TRAINING = Contents(
    "training",
    "PyTorch for the local cloud's workers is",
    {**WANTED, "forky": (*WANTED["forky"], "python3-numpy", "python3-torch")},
    left_out=LEFT_OUT
    | {
        # Tests and builds of PyTorch's own; `import torch` and training work without.
        "libtorch-test",
        "python3-expecttest",
        "python3-hypothesis",
        "python3-networkx",
        "python3-numpy-dev",
        "python3-requests",
        "python3-setuptools",
        # Plugins of Open MPI for hardware that nobody has here; the compilers they bring are large.
        "libamdhip64-6",
        "libhwloc-plugins",
    },
)
"""The same with PyTorch for CPUs (gloo), as a team's worker image would have one for its GPUs."""

BROWSER = Contents(
    "browser",
    "The browser for tests of the console is",
    # Debian stable's: a file stays on the mirrors until the next point release.
    {"bookworm": ("base-files", "chromium-headless-shell", "fontconfig-config", "fonts-dejavu-core", "libc6")},
    followed=("bookworm",),
    left_out=LEFT_OUT
    | {
        # Tools for a desktop, which a browser without windows has no use for.
        "x11-utils",
        "xdg-utils",
    },
    product="chromium",
    package="chromium-headless-shell",
    line="",
)
"""Chromium without windows, with one family of fonts."""

UPGRADE = Contents(
    "upgrade",
    "The older Slurm, which tests of an upgrade begin with, is",
    # Debian stable's, three releases back: as far as Slurm still upgrades from.
    {
        "trixie": (
            "base-files",
            "bash",
            "coreutils",
            "grep",
            "mount",  # with which it takes the other one's place
            "slurm-client",
            "slurm-wlm-basic-plugins",
            "slurm-wlm-mysql-plugin",
            "slurmctld",
            "slurmd",
            "slurmdbd",
            "util-linux",
        )
    },
    followed=("trixie",),
    left_out=LEFT_OUT
    | {
        "gawk",  # nothing here reads with it
        "libhwloc-plugins",  # for hardware and windows that nobody has here
    },
    line="24.11.",
)
"""Daemons and commands of an older Slurm, without a database: that is the other folder's."""

CONTENTS = (SLURM, TRAINING, BROWSER, UPGRADE)


@dataclass(frozen=True)
class Package:
    """One package of a package list."""

    name: str
    version: str
    path: str
    size: int
    sha256: str
    provides: tuple[str, ...]
    depends: tuple[tuple[str, ...], ...]
    """Each a choice of package names; version bounds are left out, because one list agrees with itself."""


def parse(text: str) -> dict[str, Package]:
    """Read a package list (`Packages`), by package name; of two versions the later entry counts."""
    found: dict[str, Package] = {}
    for paragraph in text.split("\n\n"):
        fields = _fields(paragraph)
        if "Package" not in fields:
            continue
        choices = [*_relation(fields.get("Pre-Depends", "")), *_relation(fields.get("Depends", ""))]
        provides = [choice[0] for choice in _relation(fields.get("Provides", ""))]
        found[fields["Package"]] = Package(
            name=fields["Package"],
            version=fields["Version"],
            path=fields["Filename"],
            size=int(fields["Size"]),
            sha256=fields["SHA256"],
            provides=tuple(provides),
            depends=tuple(choices),
        )
    return found


def _fields(paragraph: str) -> dict[str, str]:
    lines = [line for line in paragraph.splitlines() if line and not line.startswith((" ", "\t")) and ":" in line]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _relation(value: str) -> list[tuple[str, ...]]:
    """`a (>= 1) | b:any, c` -> `[("a", "b"), ("c",)]`."""
    choices = [tuple(name.split("(")[0].split(":")[0].strip() for name in part.split("|")) for part in value.split(",")]
    return [choice for choice in choices if choice[0]]


def closure(listed: Mapping[str, Package], wanted: Iterable[str], left_out: Collection[str]) -> list[Package]:
    """The wanted packages and what they depend on, by name.

    Of a choice the first counts, unless another is there already or left out on purpose.

    Raises:
        DownloadError: the list lacks one.
    """
    providers: dict[str, str] = {}
    for package in listed.values():
        for name in package.provides:
            providers.setdefault(name, package.name)
    found: dict[str, Package] = {}
    to_do = list(wanted)
    while to_do:
        name = to_do.pop(0)
        name = name if name in listed else providers.get(name, name)
        if name in found or name in left_out:
            continue
        if name not in listed:
            raise DownloadError(f"the package list has no {name}")
        found[name] = listed[name]
        provided = {*found, *left_out, *(name for package in found.values() for name in package.provides)}
        to_do += [choice[0] for choice in listed[name].depends if not provided.intersection(choice)]
    return [found[name] for name in sorted(found)]


def chosen(lists: Mapping[str, Mapping[str, Package]], contents: Contents = SLURM) -> list[Package]:
    """The packages of a folder, from the package list of each suite.

    Raises:
        DownloadError: a package is missing, or the product is of another line.
    """
    packages: list[Package] = []
    for suite, wanted in contents.wanted.items():
        listed = lists[suite]
        if suite in contents.followed:
            packages += closure(listed, wanted, contents.left_out)
        else:
            if missing := [name for name in wanted if name not in listed]:
                raise DownloadError(f"the package list of {suite} has no {', '.join(missing)}")
            packages += [listed[name] for name in wanted]
    version = version_of(contents, packages)
    if not version.startswith(contents.line):
        product = contents.product.capitalize()
        raise DownloadError(f"the mirror has {product} {version}, and this project is written for {contents.line}x")
    return packages


def version_of(contents: Contents, packages: Iterable[Package]) -> str:
    """The version of the folder's product, such as `26.05.5`."""
    return next(package.version for package in packages if package.name == contents.package).partition("-")[0]
