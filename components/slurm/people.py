"""The people who use Slurm: users, groups and their SSH keys, as code.

Owns who may log in. Keys only: nobody has a password, nobody is root, and `sudo` is given by name. In mode `slinky`
`components.slurm.directory` makes them known on login nodes and workers, in mode `managed` Crusoe does.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import Field

from components.settings import Plain, Settings
from crusoe.rules import ssh
from crusoe.rules.finding import Finding
from crusoe.rules.values import items, table, text, whole

FIRST_UID, LAST_UID = 10000, 29999
"""Numbers of users; Crusoe Managed Slurm gives its own from the same range."""
FIRST_GID, LAST_GID = 50000, 65533

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]|[a-z]")
_FULL_NAME = re.compile(r"[^:,\x00-\x1f\x7f]*")
_SYSTEM = (
    *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data"),
    *("backup", "list", "irc", "nobody", "nogroup", "sshd", "sssd", "slurm", "munge", "mysql", "messagebus"),
    *("adm", "tty", "disk", "dialout", "fax", "voice", "cdrom", "floppy", "tape", "sudo", "audio", "dip", "operator"),
    *(
        "src",
        "shadow",
        "utmp",
        "video",
        "sasl",
        "plugdev",
        "staff",
        "users",
        "input",
        "sgx",
        "kvm",
        "render",
        "crontab",
    ),
    *("_ssh", "ubuntu", "user", "slurm-sudo", "polkitd", "systemd-network", "systemd-journal"),
)
"""Users and groups that images of Slurm bring, or that the platform makes."""


class UserSettings(Settings):
    """One person."""

    keys: tuple[str, ...] = Field(
        description="SSH public keys.", examples=[["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada"]], min_length=1
    )
    full_name: str | None = Field(default=None, description="Name in full.", examples=["Ada Lovelace"])
    uid: int | None = Field(
        default=None,
        description=f"Number of the user, {FIRST_UID} to {LAST_UID}, `slinky` only, where it is needed: files belong "
        "to the number, so it must never change or be given to somebody else.",
        examples=[10001],
    )
    groups: tuple[str, ...] = Field(default=(), description="Groups that the user is in.", examples=[["vision"]])
    sudo: bool = Field(
        default=False,
        description="Whether the user may become root, and with that everybody else, Slurm included. In mode `slinky` "
        "on login nodes only, and only with an image that has `sudo`: Slinky's own has none.",
        examples=[False],
    )


class GroupSettings(Settings):
    """A group of users, for partitions and shared files."""

    gid: int | None = Field(
        default=None,
        description=f"Number of the group, {FIRST_GID} to {LAST_GID}, `slinky` only, where it is needed.",
        examples=[50001],
    )


class PeopleSettings(Settings):
    """Who may use Slurm."""

    users: Mapping[str, UserSettings] = Field(
        default={},
        description="Users by their Linux name.",
        examples=[{"ada": {"uid": 10001, "keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada"]}}],
    )
    groups: Mapping[str, GroupSettings] = Field(
        default={}, description="Groups by name.", examples=[{"vision": {"gid": 50001}}]
    )
    sssd_conf_secret: str | None = Field(
        default=None,
        description="Name of the stack's secret with a whole sssd.conf, `slinky` only, where a directory of your own "
        "(LDAP, Active Directory) has the users instead; its keys come from there too. A change of it drains the "
        "workers.",
        examples=["sssdConf"],
    )


def findings(people: Plain, path: str, *, numbered: bool) -> Iterator[Finding]:
    """Check names, numbers, keys and memberships; `numbered` says whether everybody needs a number of the settings."""
    users, groups = table(people.get("users")), table(people.get("groups"))
    if text(people.get("sssdConfSecret")):
        if not numbered:
            problem = "Crusoe Managed Slurm does not have it"
            yield Finding(f"{path}.sssdConfSecret", problem, "Take it out, or write mode: slinky")
        elif users or groups:
            problem = "the directory of sssdConfSecret has the users, so they can't be here too"
            yield Finding(f"{path}.{'users' if users else 'groups'}", problem, "Take one of both out")
    numbers: dict[int, str] = {}
    for key, each in users.items():
        user, place = table(each), f"{path}.users.{key}"
        yield from _name(place, key)
        yield from _number(f"{place}.uid", user.get("uid"), FIRST_UID, LAST_UID, numbers, needed=numbered)
        name = text(user.get("fullName"))
        if name and not _FULL_NAME.fullmatch(name):
            yield Finding(f"{place}.fullName", "has a colon, a comma or a line break", "Write the name alone")
        for index, one in enumerate(items(user.get("keys"))):
            yield from ssh.public_key(f"{place}.keys[{index}]", one)
        for index, group in enumerate(items(user.get("groups"))):
            if group not in groups:
                known = ", ".join(groups) or "none"
                yield Finding(
                    f"{place}.groups[{index}]", f"there is no group {group!r}", f"Write one of {path}.groups: {known}"
                )
    numbers = {}
    for key, each in groups.items():
        place = f"{path}.groups.{key}"
        yield from _name(place, key)
        if key in users:
            yield Finding(
                place, f"{key!r} is a user, who has a group of that name already", "Call the group something else"
            )
        yield from _number(f"{place}.gid", table(each).get("gid"), FIRST_GID, LAST_GID, numbers, needed=numbered)


def _name(path: str, key: str) -> Iterator[Finding]:
    if key in _SYSTEM:
        yield Finding(path, f"{key!r} is a user of the system, or a group of it", "Choose another name")
    elif not _NAME.fullmatch(key):
        yield Finding(
            path,
            "a name has at most 32 lower-case letters, digits and hyphens, a letter first and no hyphen last",
            "Write one such as 'ada'",
        )


def _number(
    path: str, value: object, first: int, last: int, taken: dict[int, str], *, needed: bool
) -> Iterator[Finding]:
    number = whole(value)
    if number is None:
        if needed and value is None:
            problem = "missing; files belong to the number, so it is a choice for good"
            yield Finding(path, problem, f"Write one that nobody ever had, from {first} to {last}")
        return
    if not first <= number <= last:
        yield Finding(path, f"{number} is not between {first} and {last}", f"Write {first} or more")
    elif number in taken:
        free = next(each for each in range(first, last + 1) if each not in taken)
        yield Finding(path, f"{number} is already that of {taken[number]}", f"Write {free}")
    taken.setdefault(number, path)
