"""Every fault meets every kind through the real CLI: messages as a user reads them, and a state that is the cloud's.

One `up` declares all kinds at once, each standing for itself, and goes on past what fails. What each cell comes to is
what the plugin's own matrix has published (tests/provider/faults).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator

import pytest

from tests import pages
from tests.harness import Json, Result
from tests.provider.faults import messages, report
from tests.provider.faults.cell import Site, named
from tests.provider.faults.kinds import ROWS, Row
from tests.provider.faults.site import site_in
from tests.provider.faults.table import FAULTS, SAID, Cell, Fault, Operation, why_not
from tests.small_stack import SmallStack

pytestmark = pytest.mark.integration

BY_API = [fault for fault in FAULTS if fault.kind is not None]
RESOURCES = {f"cli-{number:02}": row for number, row in enumerate(ROWS)}
"""Every kind, by the name of its resource and object."""

SHORT = "8s"
"""How long a resource waits where a fault would have it wait for minutes."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    with site_in(tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture(scope="module")
def stack(site: Site, tmp_path_factory: pytest.TempPathFactory) -> SmallStack:
    return SmallStack(tmp_path_factory.mktemp("stack"), site.cloud, "faults")


@pytest.fixture(scope="module")
def expected() -> dict[tuple[str, str, str], str]:
    return report.published(pages.part(report.COMMAND))


def snake(inputs: Json) -> Json:
    """Inputs as a Python program writes them."""
    return {re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", key): value for key, value in inputs.items()}


def declared(site: Site, changes: dict[str, Json] | None = None) -> list[Json]:
    """What the program declares: every kind once."""
    found: list[Json] = []
    for name, row in RESOURCES.items():
        own = {"name": name, "adoptExisting": True} if row.has_name else {}
        inputs = {**own, **row.inputs(site.ground), **(changes or {}).get(name, {})}
        found.append({"kind": row.kind, "name": name, "inputs": snake(inputs)})
    return found


def arm(site: Site, fault: Fault, operation: Operation) -> None:
    """Have every kind's requests of an operation meet a fault."""
    assert fault.kind is not None
    for request, kinds in Counter(row.request(operation) for row in ROWS).items():
        options = Cell(ROWS[0], operation, fault).options
        if "times" in options:
            options["times"] = kinds
        if "retry_after" in options:
            options["retry_after"] = 1
        site.cloud.fault(request, fault.kind, **options)


def listed(site: Site) -> dict[str, list[str]]:
    """The cloud's objects of this stack by kind, as state would name them."""
    found: dict[str, list[str]] = {}
    for row in {row.path: row for row in ROWS if row.has_name}.values():
        path = row.path.format(slurm=site.ground.slurm)
        prefix = f"{site.ground.slurm}/" if "{slurm}" in row.path else ""
        ids = [f"{prefix}{one['id']}" for one in site.cloud.items(f"/{path}") if belongs(one)]
        found[f"crusoe:index:{row.kind}"] = sorted(ids)
    return found


def belongs(one: Json) -> bool:
    """Whether an object is a resource's own; a Slurm cluster brings a pool and a CMK cluster of its name."""
    row = RESOURCES.get(str(one["name"])[:6])
    return row is not None and (row.kind != "SlurmCluster" or "root_ssh_pub_keys" in one)


def compare(site: Site, stack: SmallStack) -> None:
    """State and cloud hold the same objects."""
    recorded = stack.recorded()
    for token, there in listed(site).items():
        assert sorted(str(one["id"]) for one in recorded if one["type"] == token) == there, token


def run(stack: SmallStack, verb: str) -> Result:
    more = ["--continue-on-error"]
    return stack.project.pulumi(*stack.arguments(verb), *more, check=False)


def told(result: Result, name: str) -> list[str]:
    """The errors about one resource, by its object's name."""
    found: list[str] = []
    for line in result.text.splitlines():
        # One that left an object is listed below a line of its own.
        _, mark, message = line.partition("error: ") if "error: " in line else line.partition("* ")
        if mark and name in message:
            found.append(message.strip())
    return found


def judge(result: Result, row: Row, name: str, fault: Fault, outcome: str) -> None:
    """What a user reads about one kind."""
    said = SAID if fault.says else None
    found = told(result, name)
    if outcome == report.MARKS["done"]:
        assert not found, found
        return
    about = (name,)
    assert any(not messages.faults_of(one, about=about, said=said) for one in found), (row.title, found, result.text)


@pytest.mark.parametrize("fault", BY_API, ids=lambda fault: fault.title)
def test_creating(site: Site, stack: SmallStack, fault: Fault, expected: dict[tuple[str, str, str], str]) -> None:
    waits = fault.kind in {"stall-operation", "http-409", "partial-capacity"}
    stack.want(declared(site), SHORT if waits else "10m")
    arm(site, fault, "create")
    result = run(stack, "up")
    site.cloud.admin("DELETE", "/faults")
    assert "Traceback" not in result.text
    assert site.cloud.credentials()["CRUSOE_SECRET_KEY"] not in result.text
    for name, row in RESOURCES.items():
        if why_not(row, "create", fault) is None:
            judge(result, row, name, fault, expected["create", fault.title, row.title])
    compare(site, stack)
    if any(listed(site).values()):
        assert run(stack, "destroy").code == 0
        compare(site, stack)


def test_the_next_run_finishes_and_what_others_did_is_put_right(site: Site, stack: SmallStack) -> None:
    stack.want(declared(site))
    up = run(stack, "up")
    assert up.code == 0, up.text
    compare(site, stack)
    recorded = {one["urn"].rpartition("::")[2]: str(one["id"]) for one in stack.recorded() if one.get("id")}
    for name, row in RESOURCES.items():
        if row.by_hand is None:
            continue
        path = f"/{row.path.format(slurm=site.ground.slurm)}/{recorded[name].rpartition('/')[2]}"
        site.cloud.api("PATCH", path if row.has_name else f"{path}/autoclusters/config", named(row.by_hand, name))
    follows = {name: dict(row.follows) for name, row in RESOURCES.items()}
    stack.want(declared(site, follows))
    again = stack.project.pulumi(*stack.arguments("up"), "--refresh", check=False)
    assert again.code == 0, again.text
    compare(site, stack)
    preview = stack.project.pulumi("preview", "--stack", stack.name, "--refresh", "--expect-no-changes", check=False)
    assert preview.code == 0, preview.text
    gone = [name for name, row in RESOURCES.items() if row.kind in {"VpcNetwork", "StorageDisk", "KubernetesNodePool"}]
    for name in gone:
        site.cloud.api("DELETE", f"/{RESOURCES[name].path}/{recorded[name]}")
    assert stack.project.pulumi(*stack.arguments("up"), "--refresh").code == 0
    compare(site, stack)


def test_deleting_leaves_nothing(site: Site, stack: SmallStack) -> None:
    arm(site, next(fault for fault in FAULTS if fault.kind == "http-500"), "delete")
    failed = run(stack, "destroy")
    site.cloud.admin("DELETE", "/faults")
    assert failed.code != 0
    compare(site, stack)
    assert run(stack, "destroy").code == 0
    assert not any(listed(site).values())
    assert not stack.recorded() or all(one["type"].startswith("pulumi:") for one in stack.recorded())
