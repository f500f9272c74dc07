"""The windows around the end of a job: each refusal does the sum."""

from __future__ import annotations

import pytest

from crusoe.rules import slurm_timing as rules

GOOD: dict[str, object] = {
    "killWait": 90,
    "torchrunShutdown": 80,
    "warnedSave": 70,
    "stepTimeout": 20,
    "drainBudget": 30,
    "podGrace": 150,
    "unkillableStepTimeout": 180,
    "credExpire": 30,
    "allowShortCredExpire": False,
}


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        ({"torchrunShutdown": 95}, "torchrunShutdown", "(95 >= killWait 90). Raise killWait to 105, or write 80"),
        ({"torchrunShutdown": 90}, "torchrunShutdown", "90 >= killWait 90"),
        ({"warnedSave": 81}, "warnedSave", "(81 > torchrunShutdown 80). Raise torchrunShutdown to 81, or write 80"),
        ({"stepTimeout": 70}, "stepTimeout", "(70 >= warnedSave 70). Raise warnedSave to 140, or write 35"),
        ({"unkillableStepTimeout": 90}, "unkillableStepTimeout", "(90 <= killWait 90). Write 180"),
        ({"podGrace": 149}, "podGrace", "drainBudget 30 + killWait 90 + 30 = 150 s. Write 150"),
        ({"drainBudget": 31}, "podGrace", "drainBudget 31 + killWait 90 + 30 = 151 s. Write 151"),
        ({"credExpire": 19}, "credExpire", "MessageTimeout 10 + BatchStartTimeout 10 = 20 s. Write 20 or more"),
        ({"credExpire": 5}, "credExpire", "allowShortCredExpire: true"),
    ],
)
def test_refused(changed: dict[str, object], path: str, words: str) -> None:
    found = rules.timing("p", {**GOOD, **changed})
    assert [finding.path for finding in found] == [f"p.{path}"]
    assert words in str(found[0])


def test_accepted() -> None:
    assert rules.timing("p", GOOD) == []
    assert rules.timing("p", {**GOOD, "podGrace": None, "unkillableStepTimeout": None}) == []
    assert rules.timing("p", {**GOOD, "credExpire": 5, "allowShortCredExpire": True}) == []


def test_credentials_are_measured_against_the_options_that_people_set() -> None:
    (found,) = rules.timing("p", GOOD, {"BatchStartTimeout": 60})
    assert "MessageTimeout 10 + BatchStartTimeout 60 = 70 s" in str(found)


def test_grace_time() -> None:
    assert rules.grace_time("p", 90, 90) == []
    assert "(120 > killWait 90). Write 90" in str(rules.grace_time("p", 120, 90)[0])
