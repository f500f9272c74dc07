"""What no Slurm on GPU nodes may be without: requeue, time to save, users without root, workers that drain.

Facts: Slurm requeues unless it is told not to, and kills 30 s after SIGTERM (slurm.conf of 26.05); Slinky guards busy
workers by a disruption budget unless `workloadDisruptionProtection` is false (1.2); in Crusoe's managed Slurm every
user has sudo unless `disableSudo` is true.
"""

from __future__ import annotations

from collections.abc import Mapping

from crusoe.rules.finding import Finding
from crusoe.rules.values import table, text, whole

KILL_WAIT = 30
"""Seconds, Slurm's own."""


def conf(value: object) -> Mapping[str, str]:
    """Return the options of a text in the form of slurm.conf, by their names in lower case; the last one counts."""
    found: dict[str, str] = {}
    for line in (text(value) or "").splitlines():
        key, equals, option = line.partition("#")[0].strip().partition("=")
        if equals and key.strip().isalnum():
            found[key.strip().lower()] = option.strip()
    return found


def requeue(path: str, extra_conf: object) -> list[Finding]:
    """Refuse a Slurm whose jobs end with their node."""
    if conf(extra_conf).get("jobrequeue") != "0":
        return []
    return [Finding(path, "JobRequeue=0 ends every job whose node fails", "Write JobRequeue=1")]


def kill_wait(path: str, extra_conf: object, least: object) -> list[Finding]:
    """Refuse a KillWait too short for a last checkpoint; `least` in seconds."""
    given, wanted = conf(extra_conf).get("killwait"), whole(least)
    seconds = KILL_WAIT if given is None else int(given) if given.isdecimal() else None
    if seconds is None or wanted is None or seconds >= wanted:
        return []
    said = f"KillWait={seconds}" if given is not None else f"KillWait is left out, which is {KILL_WAIT} s,"
    return [Finding(path, f"{said} too little for a last checkpoint ({wanted} s)", f"Write KillWait={max(wanted, 90)}")]


def pod_time(extra_conf: object) -> int:
    """Return the seconds that jobs have after SIGTERM."""
    given = conf(extra_conf).get("killwait", "")
    return int(given) if given.isdecimal() else KILL_WAIT


def sudo(path: str, value: object) -> list[Finding]:
    """Refuse a user of managed Slurm who has sudo; `value` is `disableSudo`."""
    if value is True:
        return []
    if not (value is None or value is False):
        return []
    return [Finding(path, "the user is root on login and worker nodes, and can read Slurm's key", "Write true")]


def root_login(path: str, value: object) -> list[Finding]:
    """Refuse an sshd that lets root or passwords in; `value` is text in the form of sshd_config."""
    found: list[Finding] = []
    for line in (text(value) or "").splitlines():
        words = line.partition("#")[0].replace("=", " ").split()
        if len(words) < 2:
            continue
        option, choice = words[0].lower(), words[1].lower()
        if option == "permitrootlogin" and choice != "no":
            found.append(
                Finding(path, f"PermitRootLogin {choice} lets people log in as root", "Write PermitRootLogin no")
            )
        if option in {"passwordauthentication", "permitemptypasswords"} and choice != "no":
            found.append(Finding(path, f"{words[0]} {choice} lets passwords in", f"Write {words[0]} no"))
    return found


def privileged(path: str, container: object) -> list[Finding]:
    """Refuse a login container with the host's rights: whoever gets root in it has the node."""
    security = table(table(container).get("securityContext"))
    if security.get("privileged") is not True:
        return []
    return [Finding(f"{path}.securityContext.privileged", "gives people on it the rights of the host", "Leave it out")]


def disruption_budget(path: str, value: object) -> list[Finding]:
    """Refuse workers without a disruption budget; `value` is `workloadDisruptionProtection`."""
    if value is not False:
        return []
    return [Finding(path, "a drain evicts workers in the middle of their jobs", "Write true, or leave it out")]
