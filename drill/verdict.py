"""The verdict: what was expected of a scenario against what was reached. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from drill.losses import Comparison
from drill.stages import BY_KEY, Moment, Story

CLOCK_SECONDS = 2.0
"""How far two systems' moments may be in the wrong order: each is seen at its own pace, on a busy machine late."""


@dataclass(frozen=True)
class Expected:
    """What has to happen.

    Attributes:
        chains: stages in the order in which they have to be reached.
        absent: stages that must not be reached.
        most_lost: steps that one failure may take back.
        attempts: how often the job may have started again at most.
        resume_seconds: from the failure to the first step after it, on a quiet machine; None for no target.
        own_seconds: this project's share of that.
    """

    chains: Sequence[Sequence[str]]
    absent: Sequence[str] = ()
    most_lost: int = 0
    attempts: int = 1
    resume_seconds: float | None = None
    own_seconds: float | None = None


@dataclass(frozen=True)
class Verdict:
    """PASS where there are no findings."""

    findings: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.findings

    @property
    def word(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.passed else "FAIL"


def judge(
    expected: Expected,
    told: Story,
    reached: Mapping[str, Moment],
    compared: Comparison | None,
) -> Verdict:
    """Compare; `compared` is None where the job was not to train at all."""
    findings = [
        *_missing(expected, reached),
        *_order(expected, reached),
        *_unwanted(expected, reached),
        *_humans(told),
        *_losses(expected, compared),
    ]
    return Verdict(tuple(dict.fromkeys(findings)))


def on_real_machines(expected: Expected) -> Expected:
    """What can be expected where nobody can read AutoClusters' notices: Crusoe has no published way to get them."""
    unread = {key for key, stage in BY_KEY.items() if stage.source == "webhook"}
    chains = [[key for key in chain if key not in unread] for chain in expected.chains]
    return replace(expected, chains=chains, resume_seconds=None)


def wanted(expected: Expected) -> list[str]:
    """Every stage that has to be reached."""
    return list(dict.fromkeys(key for chain in expected.chains for key in chain))


def _missing(expected: Expected, reached: Mapping[str, Moment]) -> list[str]:
    return [f"Never seen: {BY_KEY[key].title}." for key in wanted(expected) if key not in reached]


def _order(expected: Expected, reached: Mapping[str, Moment]) -> list[str]:
    found: list[str] = []
    for chain in expected.chains:
        there = [key for key in chain if key in reached]
        for first, second in pairwise(there):
            early = reached[first].at - reached[second].at
            if early > CLOCK_SECONDS:
                text = f"{BY_KEY[second].title}, {early:.1f} s before: {BY_KEY[first].title}"
                found.append(f"Out of order: {text}.")
    return found


def _unwanted(expected: Expected, reached: Mapping[str, Moment]) -> list[str]:
    return [f"Must not have happened: {BY_KEY[key].title}." for key in expected.absent if key in reached]


def _humans(told: Story) -> list[str]:
    return [f"A person had to help: {each.what['why']}." for each in told.some("drill", "helped")]


def _losses(expected: Expected, compared: Comparison | None) -> list[str]:
    if compared is None:
        return []
    found: list[str] = []
    if not compared.steps:
        found.append("There is no undisturbed run to compare with.")
    for name, steps in (("missing", compared.missing), ("too many", compared.beyond)):
        if steps:
            found.append(f"Steps {name}: {_listed(steps)}.")
    if compared.different:
        how = f"within {compared.band:.0%}" if compared.band else "bit for bit"
        found.append(f"Steps whose loss is not the undisturbed run's, {how}: {_listed(compared.different)}.")
    if (most := max(compared.lost, default=0)) > expected.most_lost:
        found.append(f"A failure took back {most} steps, {expected.most_lost} are allowed.")
    if len(compared.lost) > expected.attempts:
        found.append(f"The job began again {len(compared.lost)} times, {expected.attempts} are allowed.")
    return found


def late(expected: Expected, reached: Mapping[str, Moment], own: float) -> list[str]:
    """Targets of time that were missed: a busy machine misses them too, so they are told and are no failure.

    `own` is this project's own share, in seconds.
    """
    found: list[str] = []
    if expected.resume_seconds is not None and "stepping" in reached and "fault" in reached:
        took = reached["stepping"].at - reached["fault"].at
        if took > expected.resume_seconds:
            target = f"{expected.resume_seconds:g} s are the target on a quiet machine"
            found.append(f"From the failure to the next step it took {took:.1f} s; {target}.")
    if expected.own_seconds is not None and own > expected.own_seconds:
        found.append(f"This project's own share was {own:.1f} s; {expected.own_seconds:g} s are the target.")
    return found


def _listed(steps: Sequence[int], most: int = 10) -> str:
    shown = ", ".join(map(str, steps[:most]))
    return shown if len(steps) <= most else f"{shown} and {len(steps) - most} more"
