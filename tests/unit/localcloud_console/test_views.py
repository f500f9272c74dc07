"""What the templates are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localcloud.console.gathering import Notice, Picture, Replacement
from localcloud.console.roles import ROLES
from localcloud.console.sights import NodeSight, SlurmNodeSight
from localcloud.console.views import DENSE_NODES, clock, node_page, overview, shares, span
from tests.unit.localcloud_console.making import NOW, incident, job, picture, sight, vm, worker


def word(given: Picture) -> str:
    return overview(given).headline.word


def test_the_headline_is_the_worst_there_is() -> None:
    closed = sight(nodes={**sight().nodes, "np-1-0": NodeSight("np-1-0", cordoned=True)})
    assert word(Picture(NOW)) == "Nothing here"
    assert word(picture()) == "All well"
    assert word(replace(picture(), sights={})) == "Not known"
    assert word(picture(seen=closed)) == "Attention"
    assert word(picture(seen=closed, incidents=[incident("isolated")])) == "Healing"
    assert word(picture(seen=closed, incidents=[incident("isolated"), incident("stalled", 1)])) == "Stuck"


def test_a_repair_that_ended_is_no_trouble() -> None:
    assert word(picture(incidents=[incident("replaced", 9)])) == "All well"


def test_the_headline_says_what_else_needs_a_look_and_how_many_jobs_wait() -> None:
    seen = sight(nodes={**sight().nodes, "np-1-1": NodeSight("np-1-1", ready=False)}, jobs=(job(1, "PENDING"),))
    text = overview(picture(seen=seen, incidents=[incident("isolated")])).headline.text
    assert text == "1 node is being repaired. 1 other needs a look. 1 job waits."


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, ""),
        ({"trouble": "connection refused"}, "Kubernetes does not answer: connection refused."),
        ({"at": NOW - 60}, "Kubernetes does not answer. What is shown is of 13:45:40."),
        ({"slurm": True, "slurm_trouble": "gone"}, "Slurm does not answer: gone."),
    ],
)
def test_what_is_not_known_is_said_at_the_cluster(changes: dict[str, Any], note: str) -> None:
    found = overview(picture(seen=sight(**changes))).clusters[0].note
    assert found.startswith(note)
    assert bool(found) == bool(note)


def test_a_cell_says_in_words_what_its_signs_say() -> None:
    seen = sight(pods=(worker(gpus=6),), jobs=(job(7, nodes=("train-0",)),))
    cell = overview(picture(seen=seen)).clusters[0].pools[0].groups[0].cells[0]
    assert cell.runs == [("training", "TTTTTT"), ("spare", "··")]
    assert cell.words == "np-1-0: in use, 6 training, 2 spare, job 7"


def test_many_nodes_are_shown_with_numbers() -> None:
    found = overview(picture(DENSE_NODES))
    assert found.dense
    assert found.clusters[0].pools[0].groups[0].cells[0].runs == [("spare", "·8")]
    assert not overview(picture(DENSE_NODES - 1)).dense


def test_nodes_stand_by_rack_and_leaf_in_the_order_in_which_they_came() -> None:
    given = picture(4)
    pool = given.clusters[0].pools[0]
    machines = (vm(0, leaf="zzzzzzzz-1"), vm(1, leaf="aaaaaaaa-1"), vm(2, leaf="zzzzzzzz-1"), vm(3, domain="nvl-1"))
    cluster = replace(given.clusters[0], pools=(replace(pool, vms=machines),))
    groups = overview(replace(given, clusters=(cluster,))).clusters[0].pools[0].groups
    assert [(each.title, [cell.short for cell in each.cells]) for each in groups] == [
        ("Leaf zzzzzzzz", ["0", "2"]),
        ("Leaf aaaaaaaa", ["1"]),
        ("Rack nvl-1", ["3"]),
    ]


def test_why_a_node_needs_a_look() -> None:
    drained = {"train-1": SlurmNodeSight("train-1", frozenset({"DRAIN"}), "health: NVLink")}
    seen = sight(
        3,
        nodes={**sight(3).nodes, "np-1-2": NodeSight("np-1-2", unhealthy="XID_48", lost=frozenset({1}))},
        pods=(worker(1),),
        slurm_nodes=drained,
    )
    found = overview(picture(3, seen=seen, incidents=[incident("isolated")])).troubles
    assert [(each.name, each.why) for each in found] == [
        ("np-1-2", "XID_48, GPU 1 lost"),
        ("np-1-0", "XID_79 on GPU 3, isolated"),
        ("np-1-1", "health: NVLink"),
    ]


def test_running_jobs_come_first_then_those_that_wait() -> None:
    jobs = (job(1, "COMPLETED"), job(2, "PENDING", reason="Resources"), job(3, since=NOW - 90, restarts=2))
    found = overview(picture(seen=sight(slurm=True, jobs=jobs))).clusters[0].jobs
    assert [(each.id, each.state, each.note, each.since) for each in found] == [
        ("3", "running", "requeued 2 times", "90 s"),
        ("2", "pending", "Resources", ""),
        ("1", "completed", "", ""),
    ]


def test_open_repairs_come_first_and_the_newest_of_the_others() -> None:
    ended = [incident("replaced", number, vm_id="gone") for number in range(1, 8)]
    found = overview(picture(incidents=[incident("isolated"), *ended])).repairs
    assert [each.id for each in found] == ["i-0", "i-7", "i-6", "i-5", "i-4"]


def test_operations_name_the_machine_as_people_know_it() -> None:
    done = [
        Replacement("o-1", "vm-0", "XID_79", "SUCCEEDED", NOW - 9, NOW - 4),
        Replacement("o-2", "unknown", "", "FAILED", NOW - 3, NOW, "no capacity"),
    ]
    found = overview(picture(replacements=done)).replacements
    assert [(name, each.id) for name, each in found] == [("unknown", "o-2"), ("np-1-0", "o-1")]


def test_notices_of_anybody_are_told_the_newest_first() -> None:
    told = [
        Notice(NOW - 60, "autoclusters.issue_detected", "vm-0", {"node": "np-1-0", "issue": "XID_79"}),
        Notice(NOW, "alert.firing", "GpuLost", {"severity": "page", "message": "A GPU is gone."}),
    ]
    found = overview(picture(notices=told)).notices
    assert found == (
        ("13:46:40", "GpuLost", "firing, page, A GPU is gone."),
        ("13:45:40", "np-1-0", "issue detected, XID_79"),
    )


def test_what_no_webhook_took_yet_is_counted() -> None:
    assert overview(picture(incidents=[incident("isolated", outbox=({"tries": 1, "body": {}},))])).undelivered == 1


@pytest.mark.parametrize("held", [{"training": 7999, "out": 1}, {"spare": 3}, dict.fromkeys(ROLES, 1)])
def test_the_parts_of_a_bar_fill_it_and_the_smallest_is_seen(held: dict[Any, int]) -> None:
    found = shares({**dict.fromkeys(ROLES, 0), **held})
    assert sum(each.width for each in found) == 1000
    assert all((each.width >= 4) == (each.gpus > 0) for each in found)
    assert [each.start for each in found[1:]] == [each.start + each.width for each in found[:-1]]


def test_a_nodes_page() -> None:
    seen = sight(
        pods=(worker(),),
        jobs=(job(7, nodes=("train-0",)), job(8, nodes=("train-1",))),
        slurm_nodes={"train-0": SlurmNodeSight("train-0", frozenset({"ALLOCATED", "DRAIN"}), "by hand")},
    )
    page = node_page(picture(seen=seen, incidents=[incident("replaced"), incident("replaced", 1)]), "np-1-0")
    assert page is not None
    assert [each.id for each in page.jobs] == ["7"]
    assert [each.id for each in page.repairs] == ["i-0"]
    assert dict(page.facts)["In Slurm"] == "train-0: allocated, drain"
    assert dict(page.facts)["Drained because"] == "by hand"
    assert page.can_fail
    assert node_page(picture(), "np-1-9") is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0.0 s"), (3.44, "3.4 s"), (48, "48 s"), (119.4, "119 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_spans_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_moments_are_in_utc() -> None:
    assert clock(0) == "00:00:00"
