"""Options of slurm.conf that Slurm refuses, takes in silence, or takes and then contradicts."""

from __future__ import annotations

import dataclasses

import pytest

from crusoe import catalog
from crusoe.rules import slurm_conf as rules
from crusoe.rules.slurm_vocabulary import NOT_HERE, OPTIONS


def told(found: list[rules.Finding]) -> str:
    return " | ".join(map(str, found))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("KilWait", 90, "Write KillWait"),
        ("maxarraysize", 5, "Write MaxArraySize"),
        ("Zebra", "x", "See docs/slurm-conf.md"),
        ("ClusterName", "x", "operator writes it. Leave it out"),
        ("NodeName", "a", "their pool"),
        ("ResumeProgram", "/bin/true", "power saving"),
        ("MaxArraySize", "many", "not a whole number"),
        ("MaxArraySize", True, "not a whole number"),
        ("MaxNodeCount", 70000, "not between 1 and 65536. Write 65536"),
        ("KillOnBadExit", 1, "Write true or false"),
        ("EnforcePartLimits", "SOME", "Known are ALL ANY NO"),
        ("LogTimeFormat", "iso8601ms", "Write iso8601_ms"),
        ("SchedulerParameters", ["nohold_on_prolog_fial"], "Write nohold_on_prolog_fail"),
        ("SchedulerParameters", "bf_continue,bf_intervall=3", "Write bf_interval=<value>"),
        ("SchedulerParameters", ["bf_interval"], "has no value. Write bf_interval=<value>"),
        ("SchedulerParameters", ["bf_continue=1"], "takes no value. Write bf_continue"),
        ("DebugFlags", ["Backfil"], "Write Backfill"),
        ("PropagateResourceLimits", ["MEMLOK"], "Write MEMLOCK"),
        ("Licenses", [["a"]], "not a list of words"),
        ("PriorityMaxAge", "7d", "Write '7-0'"),
        ("PriorityMaxAge", "36 hours", "Write '36:00:00'"),
        ("MailProg", "/bin/mail\nPartitionName=x", "line breaks"),
        ("MailProg", "/bin/mail # none", "line breaks, '#'"),
        ("MailProg", ["a"], "not a text"),
        ("TaskProlog", "", "not a text"),
    ],
)
def test_refused(name: str, value: object, words: str) -> None:
    found = rules.options("p.options", {name: value})
    assert [finding.path for finding in found] == [f"p.options.{name}"]
    assert words in told(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MaxArraySize", 10001),
        ("MaxArraySize", "10001"),
        ("KillOnBadExit", False),
        ("DisableRootJobs", True),
        ("SchedulerParameters", ["bf_interval=15", "Defer"]),
        ("SchedulerParameters", "bf_interval=15,defer"),
        ("PriorityMaxAge", "7-0"),
        ("PriorityMaxAge", "INFINITE"),
        ("MpiDefault", "pmix"),
        ("ReturnToService", 1),
        ("Licenses", ["matlab:10"]),
        ("TmpFS", "/scratch"),
        ("DebugFlags", ["NO_CONF_HASH"]),
        ("BcastParameters", ["DestDir=/tmp"]),
    ],
)
def test_accepted(name: str, value: object) -> None:
    assert rules.options("p", {name: value}) == []


def test_a_setting_of_its_own_is_named() -> None:
    found = rules.options("p", {"KillWait": 90}, {"KillWait": "platform.slurm.timing.killWait"})
    assert told(found) == "p.KillWait: KillWait has a setting of its own. Set platform.slurm.timing.killWait."


def test_what_needs_accounting() -> None:
    assert rules.options("p", {"AccountingStorageTRES": ["gres/gpu"]}) == []
    assert "accounting, which is off" in told(rules.options("p", {"AccountingStorageTRES": ["gres/gpu"]}, None, False))


def test_every_option_is_in_one_table_only() -> None:
    assert not set(OPTIONS) & set(NOT_HERE)
    assert len(OPTIONS) > 150


@pytest.mark.parametrize(
    ("conf", "path", "words"),
    [
        ({"SlurmctldParameters": "enable_stepmgr"}, "PrologFlags", "slurmctld dies without it. Write Contain"),
        ({"SlurmctldParameters": "enable_stepmgr", "PrologFlags": "Alloc"}, "PrologFlags", "Write Contain"),
        ({"PrologFlags": "Contain,NoHold"}, "PrologFlags", "Leave NoHold out"),
        ({"PrologFlags": "Serial,RunInJob"}, "PrologFlags", "Leave Serial out"),
        ({"SchedulerParameters": "bf_continue"}, "SchedulerParameters", "Add nohold_on_prolog_fail"),
        ({"DefMemPerCPU": "1", "DefMemPerGPU": "2"}, "DefMemPerGPU", "DefMemPerCPU is set as well"),
        (
            {"PropagateResourceLimits": "ALL", "PropagateResourceLimitsExcept": "MEMLOCK"},
            "PropagateResourceLimits",
            "silently drops",
        ),
        ({"TopologyParam": "RouteTree"}, "TopologyParam", "RouteTree"),
        ({"RequeueExit": "abc"}, "RequeueExit", "not a list of exit codes"),
        ({"RequeueExit": "1"}, "RequeueExit", "1 any error"),
        ({"RequeueExit": "75,137"}, "RequeueExit", "137 is not a code of one's own"),
        ({"RequeueExit": "70-80", "RequeueExitHold": "75"}, "RequeueExitHold", "exits with 75"),
        (
            {"UnkillableStepTimeout": "180", "MessageTimeout": "40"},
            "UnkillableStepTimeout",
            "180 s is less than 5 x MessageTimeout, 5 x 40 = 200 s",
        ),
        ({"HealthCheckInterval": "60", "HealthCheckTimeout": "60"}, "HealthCheckTimeout", "Write 30"),
    ],
)
def test_contradictions(conf: dict[str, str], path: str, words: str) -> None:
    found = rules.contradictions("p", conf)
    assert [finding.path for finding in found] == [f"p.{path}"]
    assert words in told(found)


def test_no_contradiction() -> None:
    conf = {
        "SlurmctldParameters": "enable_stepmgr",
        "PrologFlags": "RunInJob",
        "SchedulerParameters": "nohold_on_prolog_fail,bf_continue",
        "RequeueExit": "75,80-83",
        "RequeueExitHold": "76",
        "UnkillableStepTimeout": "180",
        "MessageTimeout": "10",
        "DefMemPerGPU": "5",
    }
    assert rules.contradictions("p", conf) == []


@pytest.mark.parametrize(
    ("value", "minutes"),
    [
        ("30", 30),
        ("90:30", 91),
        ("24:00:00", 1440),
        ("1-0", 1440),
        ("1-12", 2160),
        ("1-12:30", 2190),
        ("1-12:30:10", 2191),
        ("UNLIMITED", float("inf")),
        ("1d", None),
        (7, None),
    ],
)
def test_minutes(value: object, minutes: float | None) -> None:
    assert rules.minutes(value) == minutes


def test_return_to_service() -> None:
    assert rules.return_to_service("p", 1, "drain") == []
    assert rules.return_to_service("p", 2, "down") == []
    assert "Write 1, and let faults drain" in told(rules.return_to_service("p", 2, "down", "down"))
    assert "stays down. Write 2" in told(rules.return_to_service("p", 1, "down"))
    assert "Write 1" in told(rules.return_to_service("p", 2, "drain"))


def test_node_count() -> None:
    assert rules.node_count("p", 1024, 1024) == []
    assert "may have 1100 nodes together, and Slurm takes 1024. Write 1100" in told(rules.node_count("p", 1100, 1024))


def test_gres(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rules.gres("p", "h100-80gb-sxm-ib.8x") == []
    assert rules.gres("p", "c1a.8x") == []
    known = catalog.vm_type("h100-80gb-sxm-ib.8x")
    assert known is not None
    unnamed = dataclasses.replace(known, gres=None)
    monkeypatch.setattr(catalog, "vm_type", {"x": unnamed}.get)
    assert "no gres name for the GPUs of h100-80gb-sxm-ib.8x" in told(rules.gres("p", "x"))
