"""Sizes, folding, and names that try to be more than names."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops import diagram, markdown, report_json
from gitops.parts import Parts
from gitops.urns import parse
from tests.unit.gitops.making import DISK, POOL, Json, diagnostic, review, reviewed, state, step, summary, violation

GITHUB = 65_536
"""Characters that GitHub takes in a comment."""

NASTY = "a`b|c<script>@everyone\n```\n# x 💥 é --> $(x)"


def many(number: int, **inputs: object) -> list[Json]:
    """Resources of four parts, a quarter of each kind of change."""
    told: list[Json] = []
    for at in range(number):
        parents = f"shop:index:Part{at % 4}"
        old = state(DISK, f"disk-{at}", {"size": "1TiB", **inputs}, parents=parents)
        new = state(DISK, f"disk-{at}", {"size": "2TiB", **inputs}, parents=parents)
        told.append(
            [
                step("create", None, new),
                step("update", old, new, {"size": "update"}),
                step("replace", old, new, {"size": "update-replace"}),
                step("delete", old, None),
            ][at // 4 % 4]
        )
    return told


def test_2000_resources_fit_and_name_where_the_rest_is() -> None:
    report = reviewed(*many(2000, note="é💥" * 100)).report
    start = time.perf_counter()
    text = markdown.render(report, more="https://example.com/run/1")
    assert time.perf_counter() - start < 2
    assert len(text.encode()) <= markdown.LIMIT < GITHUB
    assert "[The whole report](https://example.com/run/1)" in text
    assert "are shortened or left out here" in text
    assert text.count("<details>") == text.count("</details>") == 4
    assert len(report_json.load(report_json.dump(report)).changes) == 2000


def test_what_is_grave_stays_when_room_is_short() -> None:
    report = reviewed(*many(400, note="x" * 150)).report
    text = markdown.render(report, limit=26_000)
    assert len(text.encode()) <= 26_000
    shown = {word: len(re.findall(rf"^. {word}: disk-", text, re.M)) for word in ("deleted", "replaced", "created")}
    assert shown["deleted"] == shown["replaced"] == 100
    assert 0 < shown["created"] < 100


@given(st.lists(st.text(max_size=300), max_size=40), st.text(max_size=2000))
def test_the_limit_holds_whatever_is_told(names: list[str], message: str) -> None:
    told = [step("delete", state(DISK, name, {name: name}, parents=f"x:y:{name}"), None) for name in names]
    told += [diagnostic(message + name, "warning") for name in names] + [violation(message + name) for name in names]
    report = review([*told, summary()]).report
    for limit in (markdown.LIMIT, 64_000):
        assert len(markdown.render(report, limit=limit).encode()) <= limit


def test_the_limit_holds_for_the_worst() -> None:
    long = "_|💥" * 300
    told = [step("delete", state(DISK, f"{at}{long}", {}, parents=f"x:y:{at}{long}"), None) for at in range(400)]
    told += [step("create", None, state(POOL, f"{at}{long}", {"type": f"{at}{long}", "count": 1})) for at in range(60)]
    told += [diagnostic(f"{at}{long}", level) for at in range(60) for level in ("error", "warning")]
    told += [violation(f"{at}{long}", policyName=f"{at}{long}") for at in range(60)]
    text = markdown.render(review([*told, summary("failed")], 1).report)
    assert len(text.encode()) <= markdown.LIMIT


def test_a_short_plan_is_open_and_a_long_one_folded() -> None:
    assert "<details open>" in markdown.render(reviewed(*many(markdown.FOLD)).report)
    assert "<details open>" not in markdown.render(reviewed(*many(markdown.FOLD + 1)).report)


def test_names_stay_names() -> None:
    told = [
        step("delete", state(DISK, NASTY, {NASTY: NASTY}, parents="x:y:Z"), None),
        step("create", None, state(POOL, NASTY, {"type": NASTY, "count": 1, "name": NASTY})),
        violation(NASTY, resourceUrn=f"urn:pulumi:prod::shop::{DISK}::{NASTY}"),
        diagnostic(NASTY),
        summary("failed"),
    ]
    seen = review(told, 1)
    text = markdown.render(seen.report)
    outside = re.sub(r"```diff\n.*?\n```\n", "", text, flags=re.S)
    assert "<script>" not in re.sub(r"`[^`\n]*`", "", outside)
    assert "@everyone" not in re.sub(r"`[^`\n]*`", "", outside)
    assert text.count("```") % 2 == 0
    assert not re.search(r"^# x", text, re.M)
    ET.fromstring(diagram.draw("shop", "prod", seen.resources))


def test_the_comment_is_found_by_project_and_stack() -> None:
    first = markdown.render(reviewed().report).splitlines()[0]
    assert first == markdown.marker("shop", "prod") == "<!-- preview of shop/prod -->"
    assert markdown.marker("other", "prod") != first
    assert markdown.marker("a-->b", "x").count("-->") == 1


@given(st.lists(st.tuples(st.text(max_size=80), st.integers(0, 500), st.booleans()), max_size=12))
def test_a_picture_is_always_xml_and_its_boxes_lie_inside(pools: list[tuple[str, int, bool]]) -> None:
    told = [
        step(
            "create",
            None,
            state(POOL, f"{at}-{name}", {"type": "h100-80gb-sxm-ib.8x" if gpu else name, "count": count}),
        )
        for at, (name, count, gpu) in enumerate(pools)
    ]
    root = ET.fromstring(diagram.draw("shop", "prod", reviewed(*told).resources))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert x + float(box.get("width", 0)) <= width
        assert y + float(box.get("height", 0)) <= height


def test_a_picture_shows_what_stays_and_comes_and_not_what_goes() -> None:
    disks = [
        step("same", state(DISK, "kept", {"name": "kept"}), state(DISK, "kept", {"name": "kept"})),
        step("create", None, state(DISK, "new", {"name": "new"})),
        step("delete", state(DISK, "old", {"name": "old"}), None),
    ]
    pool = {"type": "h100-80gb-sxm-ib.8x", "autoscaling": {"min": 2, "max": 5}}
    drawn = diagram.draw("shop", "prod", reviewed(*disks, step("create", None, state(POOL, "p", pool))).resources)
    assert ">kept<" in drawn
    assert ">new<" in drawn
    assert ">old<" not in drawn
    assert drawn.count('class="gpu"') == 2
    assert drawn.count('class="spare"') == 3
    assert "16 to 40 GPUs" in drawn


@pytest.mark.parametrize(
    ("ports", "told"),
    [
        (["22", "443", "8080"], "in: 22, 443, ..."),
        ([], "in: tcp"),
        ("04da6b54-80e4-46f7-96ec-b56ff0331ba9", "in: known later"),
    ],
)
def test_a_picture_says_of_ports_that_are_not_known_that_they_are_not(ports: object, told: str) -> None:
    rule = {"name": "r", "direction": "ingress", "protocols": ["tcp"], "sources": ["203.0.113.0/24"]}
    made = step("create", None, state("crusoe:index:VpcFirewallRule", "r", {**rule, "destinationPorts": ports}))
    assert f">{told}<" in diagram.draw("shop", "prod", reviewed(made).resources)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"count": 2}, {"count": 5}, "| 16 | 40 | +24 | 2 → 5 hosts (+3) |"),
        (
            {"count": 2},
            {"autoscaling": {"min": 1, "max": 4}},
            "| 16 | 8 to 32 | -8 to +16 | 2 → 1 to 4 hosts (-1 to +2) |",
        ),
    ],
)
def test_gpus_in_the_comment(before: Json, after: Json, told: str) -> None:
    kind = {"type": "h100-80gb-sxm-ib.8x"}
    one = step("update", state(POOL, "p", {**kind, **before}), state(POOL, "p", {**kind, **after}), {"count": "update"})
    assert told in markdown.render(reviewed(one).report)


def test_slices_and_unknown_types_are_named_so() -> None:
    told = [
        step("create", None, state(POOL, "a", {"type": "l40s-48gb.2x", "count": 3})),
        step("create", None, state(POOL, "b", {"type": "b900.8x", "count": 1})),
    ]
    text = markdown.render(reviewed(*told).report)
    assert "| `l40s-48gb.2x` | 0 | 6 | +6 | 0 → 3 slices of hosts (+3) |" in text
    assert "| `b900.8x` | ? | ? | ? | 0 → 1 VMs of an unknown type (+1) |" in text


def test_parts_of_any_program() -> None:
    def of(*urns: str, which: str) -> str:
        known = [parse(f"urn:pulumi:s::p::{each}") for each in urns]
        return Parts(known).of(parse(f"urn:pulumi:s::p::{which}"))

    whole = ("app:index:App::app", "app:index:App$app:net:Net::net", "app:index:App$app:db:Db::one")
    # The one component around everything is no part.
    assert of(*whole, which="app:index:App$app:net:Net$aws:s3:Bucket::b") == "net (Net)"
    assert of(*whole, "app:index:App$app:db:Db::two", which="app:index:App$app:db:Db$aws:s3:Bucket::b") == "Db"
    # One component alone is.
    assert of("app:net:Net::net", which="app:net:Net$aws:s3:Bucket::b") == "net (Net)"
    assert of(which="kubernetes:core/v1:Secret::s") == "Kubernetes"
    assert of(which="pulumi:providers:aws::a") == "Connections"
    assert of(which="no urn at all") == ""
