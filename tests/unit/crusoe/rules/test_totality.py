"""No rule ever raises, whatever it is given, and every finding can be acted on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crusoe.rules import (
    autoclusters,
    cluster,
    credentials,
    exposure,
    gpu_cost,
    gpu_quota,
    gpu_sharing,
    names,
    network,
    node_pools,
    pinning,
    places,
    slurm_conf,
    slurm_managed,
    slurm_partitions,
    slurm_safety,
    slurm_timing,
    slurm_workers,
    storage,
)
from crusoe.rules.finding import Finding

MODULES: list[ModuleType] = [
    autoclusters,
    cluster,
    credentials,
    exposure,
    gpu_cost,
    gpu_quota,
    gpu_sharing,
    names,
    network,
    node_pools,
    pinning,
    places,
    slurm_conf,
    slurm_managed,
    slurm_partitions,
    slurm_safety,
    slurm_timing,
    slurm_workers,
    storage,
]

WORDS = st.sampled_from(
    [
        "h100-80gb-sxm-ib.8x",
        "a100-80gb.1x",
        "c1a.8x",
        "1.33.4-cmk.43",
        "1.35.5",
        "10.0.0.0/16",
        "0.0.0.0/0",
        "::/0",
        "10Ti",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "login",
        "pools",
        "killWait",
        "KillWait",
        "SchedulerParameters",
        "RequeueExit",
        "7-0",
        "maxTime",
        "REPLACE_NODE",
        "OFF",
        "NoSchedule",
        "key",
        "value",
        "effect",
        "type",
        "count",
        "autoscaling",
        "min",
        "max",
        "nodeTaints",
        "issuerUrl",
        "https://[",
        "*",
        "1-2",
        "100GiB",
        "auto",
        "on_demand",
        "id",
        "reservation",
        "selectionStrategy",
        "groupsClaim",
        "routingMode",
        "system:masters",
        "XID_74",
        "all",
        "training",
        "inference",
        "floor",
        "engine",
        "kueue",
        "gpusPerReplica",
    ]
)
TEXT = WORDS | st.text(max_size=12)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
ODD = st.recursive(
    SCALAR | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.integers(), inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


def rules() -> list[Callable[..., list[Finding]]]:
    return [
        member
        for module in MODULES
        for name, member in inspect.getmembers(module, inspect.isfunction)
        if member.__module__ == module.__name__
        and not name.startswith("_")
        and "path" in inspect.signature(member).parameters
    ]


def arguments(rule: Callable[..., list[Finding]]) -> st.SearchStrategy[dict[str, object]]:
    """Odd values for every `object`, proper ones for what has a type."""
    drawn: dict[str, st.SearchStrategy[object]] = {}
    for name, parameter in inspect.signature(rule).parameters.items():
        kind = str(parameter.annotation)
        if kind == "str":
            drawn[name] = st.just(f"platform.{name}")
        elif kind.startswith("bool"):
            drawn[name] = st.booleans()
        elif kind == "int":
            drawn[name] = st.integers(8, 30)
        elif kind.startswith("tuple"):
            drawn[name] = st.just(("auto", "off"))
        elif kind == "object":
            drawn[name] = ODD
    return st.fixed_dictionaries(drawn)


def test_all_rules_are_found() -> None:
    assert len(rules()) > 35
    assert {rule.__module__ for rule in rules()} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule.__module__.rsplit('.', 1)[1]}.{rule.__name__}")
def test_a_rule_is_total(rule: Callable[..., list[Finding]]) -> None:
    @settings(max_examples=15)
    @given(given_arguments=arguments(rule))
    def check(given_arguments: Mapping[str, object]) -> None:
        found = rule(**given_arguments)
        assert isinstance(found, list)
        for finding in found:
            assert isinstance(finding, Finding)
            assert finding.path.startswith("platform.")
            assert finding.problem
            assert finding.fix
            assert "None" not in finding.fix

    check()


# What is left out is what the service makes of it, and that is the fault.
MINDING_WHAT_IS_LEFT_OUT = {"public_api", "source_ranges", "sudo"}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule.__module__.rsplit('.', 1)[1]}.{rule.__name__}")
def test_nothing_given_is_nothing_wrong(rule: Callable[..., list[Finding]]) -> None:
    nothing = {"str": "platform.x", "int": 30, "bool": False, "tuple[str, ...]": ("a",)}
    required = {
        name: nothing.get(str(parameter.annotation).removesuffix(" | None"))
        for name, parameter in inspect.signature(rule).parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    assert (rule(**required) == []) == (rule.__name__ not in MINDING_WHAT_IS_LEFT_OUT)
