"""What the local cloud changes in Slurm's configuration, and why: pure functions.

slurm.conf and cgroup.conf are loaded as they were generated, with these lines after them. Everything in the table is
something that a set of namespaces on a laptop can't do; all else is the platform's own configuration. Of an option
given twice Slurm takes the last.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE = "local-cloud.conf"
"""The file with the lines, included by slurm.conf's last line; workers get it with the rest."""

OVERRIDES: Mapping[str, tuple[str, str]] = {
    "ProctrackType": ("proctrack/linuxproc", "cgroups can't be had inside of namespaces"),
    "TaskPlugin": ("task/none", "binding tasks to a node's CPUs fails where the machine has fewer"),
    "JobAcctGatherType": ("jobacct_gather/linux", "cgroups can't be had inside of namespaces"),
}
"""Options of slurm.conf by name: the value here, and why."""

SLURMD_PARAMETERS = "config_overrides"
"""Added to SlurmdParameters: a node has more CPUs and memory than the machine, and its slurmd is believed."""

CGROUP_PLUGIN = "disabled"


def slurm_conf_lines(text: str) -> str:
    """The lines that follow a slurm.conf."""
    given = _last(text, "SlurmdParameters")
    items = [item for item in given.split(",") if item]
    if SLURMD_PARAMETERS not in items:
        items.append(SLURMD_PARAMETERS)
    lines = [f"# {reason}\n{name}={value}\n" for name, (value, reason) in OVERRIDES.items()]
    return (
        "# What a set of namespaces on one machine can't do; see docs/local-cloud.md.\n"
        + "".join(lines)
        + f"# a node may be larger than the machine\nSlurmdParameters={','.join(items)}\n"
    )


def overridden(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a configuration folder with the local cloud's lines; a folder without slurm.conf stays as it is."""
    if "slurm.conf" not in files:
        return dict(files)
    text = files["slurm.conf"].decode()
    changed = {
        **files,
        "slurm.conf": f"{text.rstrip()}\nInclude {FILE}\n".encode(),
        FILE: slurm_conf_lines(text).encode(),
    }
    changed["cgroup.conf"] = cgroup_conf(files.get("cgroup.conf", b"").decode()).encode()
    return changed


def cgroup_conf(text: str) -> str:
    """cgroup.conf without cgroups; its other lines stay, and are checked by Slurm as they are."""
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip().lower() != "cgroupplugin"]
    return "\n".join([*kept, f"CgroupPlugin={CGROUP_PLUGIN}", ""])


def _last(text: str, option: str) -> str:
    found = ""
    for line in text.splitlines():
        name, _, value = line.partition("#")[0].partition("=")
        if name.strip().lower() == option.lower():
            found = value.strip()
    return found
