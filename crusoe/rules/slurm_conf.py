"""Options of slurm.conf: names, values, and options that contradict each other.

What Slurm does with each mistake was tried with slurmctld 26.05.5. It dies on an unknown name, on most wrong single
values and on `enable_stepmgr` without `PrologFlags=Contain`; nearly every wrong item of a list it takes without a word.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from crusoe import catalog
from crusoe.rules.finding import Finding
from crusoe.rules.slurm_vocabulary import NOT_HERE, OPTIONS, Known
from crusoe.rules.values import items, table, text, whole

TIME = re.compile(r"\d+(:\d{1,2}){0,2}|\d+-\d+(:\d{1,2}){0,2}")
"""A length of time: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""

HIGHEST_OWN_EXIT = 125
"""Exit codes above it are the shell's: not found, not executable, ended by a signal."""

MEMORY_DEFAULTS = ("DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode")
ACCOUNTING_ONLY = (
    "AccountingStorageEnforce",
    "AccountingStorageParameters",
    "AccountingStorageTRES",
    "AccountingStoreFlags",
    "TrackWCKey",
)
"""Options that need slurmdbd; without it `AccountingStorageTRES=gres/gpu` keeps slurmctld from starting."""


def options(path: str, value: object, elsewhere: object = None, accounting: object = True) -> list[Finding]:
    """Check the options that people set, by name.

    `elsewhere` maps an option that a setting of its own decides to that setting's path. `accounting` False refuses what
    needs slurmdbd.
    """
    owners = table(elsewhere)
    found: list[Finding] = []
    for name, given in table(value).items():
        place, known = f"{path}.{name}", OPTIONS.get(name)
        if text(owners.get(name)) is not None:
            found.append(Finding(place, f"{name} has a setting of its own", f"Set {owners[name]}"))
        elif name in NOT_HERE:
            found.append(Finding(place, f"{name} can't be set here: {NOT_HERE[name]}", "Leave it out"))
        elif known is None:
            found.append(_unknown(place, name))
        elif accounting is False and name in ACCOUNTING_ONLY:
            found.append(
                Finding(place, "it needs accounting, which is off, and slurmctld may not start with it", "Leave it out")
            )
        else:
            found += _value(place, known, given)
    return found


def _unknown(path: str, name: str) -> Finding:
    names = [*OPTIONS, *NOT_HERE]
    same = [each for each in names if each.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    fix = f"Write {near[0]}" if near else "See docs/slurm-conf.md for all options"
    return Finding(path, f"slurm.conf of Slurm 26.05 has no option {name[:60]!r}, and slurmctld dies on it", fix)


def _value(path: str, known: Known, value: object) -> list[Finding]:
    match known.kind:
        case "whole":
            given = text(value)
            number = int(given) if given and re.fullmatch(r"\d{1,10}", given) else whole(value)
            if number is None:
                return [Finding(path, "not a whole number", f"Write one from {known.least}")]
            if not known.least <= number <= known.most:
                right = min(max(number, known.least), known.most)
                return [Finding(path, f"{number} is not between {known.least} and {known.most}", f"Write {right}")]
            return []
        case "switch" | "yes":
            right = isinstance(value, bool)
            return [] if right else [Finding(path, "neither true nor false", "Write true or false, without quotes")]
        case "list":
            return _list(path, known, value)
        case _:
            return _single(path, known, value)


def words(path: str, value: object, option: object) -> list[Finding]:
    """Check a list of words that a setting of its own has, against those of the option that it becomes."""
    known = OPTIONS.get(text(option) or "")
    return _list(path, known, value) if known is not None and items(value) else []


def _single(path: str, known: Known, value: object) -> list[Finding]:
    number = whole(value)
    given = str(number) if number is not None else text(value)
    if given is None:
        return [Finding(path, "not a text", "Write one value")]
    if known.kind == "choice":
        return _word(path, given, known.words, "")
    if known.kind == "time":
        return time(path, given)
    return line(path, given)


def _list(path: str, known: Known, value: object) -> list[Finding]:
    parts = items(value) or [value]
    found: list[Finding] = []
    for each in parts:
        number = whole(each)
        given = str(number) if number is not None else text(each)
        if given is None:
            found.append(Finding(path, "not a list of words", "Write a list such as [first, second=2]"))
            continue
        for item in given.split(","):
            found += _word(path, item, known.words, "item ") if known.words else line(path, item)
    return found


def _word(path: str, given: str, words: Sequence[str], what: str) -> list[Finding]:
    """Check one word of a vocabulary; Slurm does not mind their case."""
    name, equals, content = given.partition("=")
    by_letters = {word.removesuffix("=").lower(): word for word in words}
    known = by_letters.get(name.lower())
    if known is None:
        near = difflib.get_close_matches(name.lower(), by_letters, n=1, cutoff=0.6)
        right = by_letters[near[0]] if near else None
        fix = f"Write {right}{'<value>' if right.endswith('=') else ''}" if right else f"Known are {' '.join(words)}"
        return [Finding(path, f"{what}{given[:60]!r} is not one that Slurm 26.05 knows", fix)]
    if known.endswith("=") and not content:
        return [Finding(path, f"{what}{given[:60]!r} has no value", f"Write {known}<value>")]
    if equals and not known.endswith("="):
        return [Finding(path, f"{what}{given[:60]!r} takes no value", f"Write {known}")]
    return line(path, content) if content else []


def line(path: str, value: object) -> list[Finding]:
    """Check that a text stays the value of its option: one line, no comment, nothing empty."""
    given = text(value)
    if given is None:
        return [] if not isinstance(value, str) else [Finding(path, "empty", "Leave it out")]
    if re.search(r"[\n\r#\"'\\]", given):
        problem = "line breaks, '#', quotes and backslashes would end the option or begin another one"
        return [Finding(path, problem, "Leave them out")]
    return []


def time(path: str, value: object) -> list[Finding]:
    """Check a length of time; slurmctld dies on `1d`."""
    given = text(value)
    if given is None or given in ("UNLIMITED", "INFINITE") or TIME.fullmatch(given):
        return []
    number = re.fullmatch(r"(\d+)\s*([dhm])\w*", given.lower())
    forms = {"d": "{}-0", "h": "{}:00:00", "m": "{}"}
    right = forms[number[2]].format(number[1]) if number else "1-12:00:00"
    return [Finding(path, f"{given[:40]!r} is no length of time for Slurm", f"Write {right!r} (days-hours:min:s)")]


def minutes(value: object) -> float | None:
    """Whole minutes of a length of time, infinite for UNLIMITED, None for what is none; seconds count as a minute."""
    given = text(value)
    if given in ("UNLIMITED", "INFINITE"):
        return float("inf")
    if given is None or not TIME.fullmatch(given):
        return None
    days, dash, rest = given.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, mins, seconds = (*parts, 0, 0)[:3]
        return int(days) * 1440 + hours * 60 + mins + (seconds > 0)
    if len(parts) == 3:
        return parts[0] * 60 + parts[1] + (parts[2] > 0)
    return parts[0] + (len(parts) == 2 and parts[1] > 0)


def contradictions(path: str, value: object) -> list[Finding]:
    """Check options against each other. `value` has all of slurm.conf, by name, as it is written there."""
    given = {name: str(content) for name, content in table(value).items() if isinstance(content, str | int)}
    return [*_launch(path, given), *_choices(path, given), *_exits(path, given), *_waits(path, given)]


def _items(given: Mapping[str, str], name: str) -> set[str]:
    return {item.partition("=")[0].lower() for item in given.get(name, "").split(",")}


def _launch(path: str, given: Mapping[str, str]) -> Iterator[Finding]:
    flags = _items(given, "PrologFlags")
    contained = flags & {"contain", "runinjob", "x11"}
    if "enable_stepmgr" in _items(given, "SlurmctldParameters") and not contained:
        problem = "enable_stepmgr needs PrologFlags=Contain: slurmctld dies without it"
        yield Finding(f"{path}.PrologFlags", problem, "Write Contain")
    if "nohold" in flags and contained:
        yield Finding(f"{path}.PrologFlags", "NoHold can't be combined with Contain or X11", "Leave NoHold out")
    if {"serial", "runinjob"} <= flags:
        yield Finding(f"{path}.PrologFlags", "Serial can't be combined with RunInJob", "Leave Serial out")
    if "SchedulerParameters" in given and "nohold_on_prolog_fail" not in _items(given, "SchedulerParameters"):
        problem = "a job whose prolog fails is held until a person releases it"
        yield Finding(f"{path}.SchedulerParameters", problem, "Add nohold_on_prolog_fail")


def _choices(path: str, given: Mapping[str, str]) -> Iterator[Finding]:
    defaults = [name for name in MEMORY_DEFAULTS if name in given]
    for name in defaults[1:]:
        yield Finding(f"{path}.{name}", f"{defaults[0]} is set as well, and only one counts", f"Leave {name} out")
    if {"PropagateResourceLimits", "PropagateResourceLimitsExcept"} <= given.keys():
        problem = "PropagateResourceLimitsExcept is set as well, and Slurm silently drops this one"
        yield Finding(f"{path}.PropagateResourceLimits", problem, "Leave it out")
    if "routetree" in _items(given, "TopologyParam"):
        yield Finding(f"{path}.TopologyParam", "RouteTree does not work with workers that register", "Leave it out")


def _exits(path: str, given: Mapping[str, str]) -> Iterator[Finding]:
    requeue = _codes(given.get("RequeueExit", ""))
    hold = _codes(given.get("RequeueExitHold", ""))
    for name, codes in (("RequeueExit", requeue), ("RequeueExitHold", hold)):
        if codes is None:
            yield Finding(f"{path}.{name}", "not a list of exit codes", "Write one such as '75,80-83'")
            continue
        wrong = sorted(code for code in codes if not 2 <= code <= HIGHEST_OWN_EXIT)
        if wrong:
            problem = (
                f"{wrong[0]} is not a code of one's own: 0 is success, 1 any error, and above {HIGHEST_OWN_EXIT} are "
                "signals, so that jobs would start over without end"
            )
            yield Finding(f"{path}.{name}", problem, f"Use codes from 2 to {HIGHEST_OWN_EXIT}, such as 75")
    both = sorted((requeue or set()) & (hold or set()))
    if both:
        problem = f"a job that exits with {both[0]} is to be requeued and to be held"
        yield Finding(f"{path}.RequeueExitHold", problem, "Use another code, such as 76")


def _codes(value: str) -> set[int] | None:
    codes: set[int] = set()
    for part in value.split(",") if value else ():
        numbers = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part.strip())
        if numbers is None:
            return None
        codes |= set(range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1))
    return codes


def _waits(path: str, given: Mapping[str, str]) -> Iterator[Finding]:
    message, unkillable = (_seconds(given, name) for name in ("MessageTimeout", "UnkillableStepTimeout"))
    if message and unkillable and unkillable < 5 * message:
        problem = f"{unkillable} s is less than 5 x MessageTimeout, 5 x {message} = {5 * message} s: nodes drain"
        yield Finding(f"{path}.UnkillableStepTimeout", problem, f"Write {5 * message}")
    interval, timeout = (_seconds(given, name) for name in ("HealthCheckInterval", "HealthCheckTimeout"))
    if interval and timeout and timeout >= interval:
        problem = f"{timeout} s is not less than HealthCheckInterval, {interval} s"
        yield Finding(f"{path}.HealthCheckTimeout", problem, f"Write {max(1, interval // 2)}")


def _seconds(given: Mapping[str, str], name: str) -> int | None:
    content = given.get(name, "")
    return int(content) if re.fullmatch(r"\d{1,9}", content) else None


def node_count(path: str, most_nodes: object, limit: object) -> list[Finding]:
    """Check that slurmctld has room for every node that the pools may have."""
    nodes, room = whole(most_nodes), whole(limit)
    if nodes is None or room is None or nodes <= room:
        return []
    return [Finding(path, f"the pools may have {nodes} nodes together, and Slurm takes {room}", f"Write {nodes}")]


def return_to_service(path: str, value: object, pre_stop: object, fault: object = "drain") -> list[Finding]:
    """Check when a node that is down comes back by itself.

    `pre_stop` is what a worker's preStop does to its node and `fault` what a fault does: `drain` or `down`. With 2 a
    node that is set down while its slurmd lives is idle again in a second, and a job starts on the broken node.
    """
    given = whole(value)
    if given == 2 and fault == "down":
        problem = "faults set a node down, and with ReturnToService=2 it is idle again as soon as its slurmd speaks"
        return [Finding(path, problem, "Write 1, and let faults drain the node")]
    if given is not None and given < 2 and pre_stop == "down":
        problem = f"preStop sets the node down, and with ReturnToService={given} the pod that replaces it stays down"
        return [Finding(path, problem, "Write 2, or let preStop drain the node")]
    if given == 2 and pre_stop == "drain":
        problem = "preStop drains, so 2 is not needed, and it brings back nodes that were set down for a fault"
        return [Finding(path, problem, "Write 1")]
    return []


def gres(path: str, vm_type_name: object) -> list[Finding]:
    """Check that the GPUs of a VM type have a name in Slurm."""
    kind = catalog.vm_type(vm_type_name)
    if kind is None or not kind.gpus or kind.gres:
        return []
    problem = f"the catalogue has no gres name for the GPUs of {kind.name}, so that no job could ask for them"
    fix = "Add `gres` to the type in crusoe/catalog.yaml: a part of the name that the driver gives the GPU, as 'h100'"
    return [Finding(path, problem, fix)]
