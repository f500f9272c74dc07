"""Names."""

from __future__ import annotations

import pytest

from crusoe.rules import names
from crusoe.rules.finding import Finding


@pytest.mark.parametrize("good", ["a", "train", "dev-train-2", "a" * 63])
def test_good_names(good: str) -> None:
    assert names.name("p", good) == []


@pytest.mark.parametrize(
    ("bad", "fix"),
    [
        ("Train", "'train'"),
        ("my_pool", "'my-pool'"),
        ("-a-", "'a'"),
        ("2fast", "'fast'"),
        ("a..b", "'a-b'"),
        ("train-", "'train'"),
        ("a" * 64, f"'{'a' * 63}'"),
        ("ü", "such as 'train'"),
        ("", "such as 'train'"),
        ("a\n", "'a'"),
    ],
)
def test_bad_names_and_what_would_be_right(bad: str, fix: str) -> None:
    (found,) = names.name("platform.x", bad)
    assert found.path == "platform.x"
    assert fix in found.fix


@pytest.mark.parametrize("bad", ["Train", "my_pool", "A.B", "x" * 200, "-9-a"])
def test_the_name_in_the_fix_is_good(bad: str) -> None:
    (found,) = names.name("p", bad)
    assert names.name("p", found.fix.split("'")[1]) == []


def test_physical_names_hold_the_stack_and_the_limit() -> None:
    assert names.physical("p", "dev", "train") == []
    assert names.physical("p", "d" * 31, "t" * 31) == []
    (found,) = names.physical("p", "d" * 31, "t" * 32)
    assert "64 characters; 63 are allowed" in found.problem
    assert "at most 31 characters" in found.fix
    (found,) = names.physical("p", "d" * 62, "train")
    assert "stack name of at most 57 characters" in found.fix
    (found,) = names.physical("p", "Dev", "train")
    assert "'dev-train'" in found.fix
    assert names.physical("p", "d" * 60, "t" * 60, by_hand="short") == []
    assert len(names.physical("p", "dev", "train", by_hand="Not Good")) == 1


def test_names_are_unique() -> None:
    (found,) = names.unique({"a.one": "x", "a.two": "x", "a.three": "y", "a.four": None})
    assert found.path == "a.two"
    assert "a.one" in found.problem
    assert "'x-2'" in found.fix


def test_reserved_names_say_what_for() -> None:
    found = names.reserved("platform.nodePools", {"system": {}, "login": {}, "all": {}})
    assert {each.path for each in found} == {"platform.nodePools.login", "platform.nodePools.all"}
    assert "Slurm's login nodes" in found[0].problem
    assert "'login-nodes'" in found[0].fix
    assert names.reserved("p", ["train"]) == []
    assert len(names.reserved("p", ["mine"], {"mine": "me"})) == 1


def test_a_finding_reads_as_a_sentence_and_sorts() -> None:
    assert str(Finding("a.b", "wrong.", "Write 'x'")) == "a.b: wrong. Write 'x'."
    assert sorted([Finding("b", "", ""), Finding("a", "", "")])[0].path == "a"
