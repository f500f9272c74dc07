"""Objects for the Pulumi Kubernetes Operator, against the fields that its kinds have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gitops import command
from gitops.operator import LONGEST_NAME, SECRETS, OperatorStackError, Source, Wish, files

ROOT = Path(__file__).parents[3]

# Operator 2.9: operator/api/pulumi/shared/stack_types.go, and Stack's `preview` of its version 2.3.
STACK_FIELDS = {
    "accessTokenSecret envs envRefs envSecrets backend stack config configRef secrets secretsRef secretsProvider "
    "projectRepo gitAuthSecret gitAuth repoDir commit branch shallow fluxSource programRef targets targetDependents "
    "prerequisites continueResyncOnCommitMatch refresh expectNoRefreshChanges destroyOnFinalize retryOnUpdateConflict "
    "useLocalStackOnly resyncFrequencySeconds serviceAccountName workspaceTemplate workspaceReclaimPolicy "
    "updateTemplate environment preview runProgram retryMaxBackoffDurationSeconds"
}
# Operator 2.9: operator/api/auto/v1alpha1/workspace_types.go.
WORKSPACE_FIELDS = {
    "serviceAccountName securityProfile image imagePullPolicy git flux local envFrom env resources podTemplate "
    "pulumiLogLevel stacks"
}
SOURCES = ({"projectRepo", "branch"}, {"projectRepo", "commit"}, {"fluxSource"}, {"programRef"})
REFERENCES = {"Env": {"name"}, "FS": {"path"}, "Secret": {"namespace", "name", "key"}, "Literal": {"value"}}

WISH = Wish(
    "prod", Source("https://git.example.com/platform.git"), "s3://state", "docker.io/pulumi/pulumi:3.1.0-nonroot"
)


def words(fields: set[str]) -> set[str]:
    return set(" ".join(fields).split())


def stacks(wish: Wish) -> dict[str, dict[str, Any]]:
    objects = [one for each in files(wish).values() for one in each if one["kind"] == "Stack"]
    return {cast("dict[str, str]", one["metadata"])["name"]: cast("dict[str, Any]", one["spec"]) for one in objects}


def faults(spec: dict[str, Any]) -> Iterator[str]:
    """What the operator's kinds would not take."""
    yield from (f"no field {field}" for field in spec.keys() - words(STACK_FIELDS))
    if sum(source <= spec.keys() for source in SOURCES) != 1:
        yield "not exactly one source"
    if spec.get("resyncFrequencySeconds", 60) < 60:
        yield "looks too often"
    for name, reference in spec.get("envRefs", {}).items():
        kind = reference["type"]
        if not reference[kind.lower()].keys() <= REFERENCES[kind] or reference.keys() != {"type", kind.lower()}:
            yield f"{name} is no reference"
    template = spec["workspaceTemplate"]
    yield from (f"no field {field} of a workspace" for field in template["spec"].keys() - words(WORKSPACE_FIELDS))
    yield from (
        "a variable without name or value" for one in template["spec"]["env"] if one.keys() != {"name", "value"}
    )


@pytest.mark.parametrize(
    "wish",
    [
        WISH,
        replace(WISH, secrets_provider="awskms://alias/x", after="staging"),
        replace(WISH, source=Source(flux="platform")),
        replace(WISH, source=Source(flux="platform", flux_kind="OCIRepository", folder="infra")),
        replace(WISH, source=replace(WISH.source, folder="infra", branch="prod")),
    ],
)
def test_stacks_have_the_fields_of_the_kind(wish: Wish) -> None:
    found = stacks(wish)
    assert set(found) == {"prod", "prod-drift"}
    for spec in found.values():
        assert [*faults(spec)] == []


def test_the_check_of_fields_sees_a_wrong_one() -> None:
    spec = stacks(WISH)["prod"]
    spec |= {"previews": True, "resyncFrequencySeconds": 5, "fluxSource": {}}
    assert len([*faults(spec)]) == 3


def test_one_deploys_and_one_only_looks() -> None:
    deploys, looks = stacks(WISH)["prod"], stacks(WISH)["prod-drift"]
    assert "preview" not in deploys
    assert looks["preview"] is True
    assert looks["expectNoRefreshChanges"] is True
    assert looks["stack"] == deploys["stack"] == "prod"
    secrets = [{one["secret"]["name"] for one in spec["envRefs"].values()} for spec in (deploys, looks)]
    assert secrets == [{"prod"}, {"prod-preview"}]


@pytest.mark.parametrize("name", ["prod", "prod-drift"])
def test_each_is_guarded_and_can_neither_make_nor_remove_a_stack(name: str) -> None:
    spec = stacks(WISH)[name]
    variables = {one["name"]: one["value"] for one in spec["workspaceTemplate"]["spec"]["env"]}
    assert variables["PULUMI_OPTION_POLICY_PACK"] == "/share/workspace/policies"
    assert spec["useLocalStackOnly"] is True
    assert spec["destroyOnFinalize"] is False


def test_credentials_come_by_reference_and_stand_nowhere() -> None:
    assert {*SECRETS} == stacks(WISH)["prod"]["envRefs"].keys()
    kinds = {one["kind"] for each in files(WISH).values() for one in each}
    assert "Secret" not in kinds
    assert not re.search(r"(secret|passphrase)[^,]*value", json.dumps(files(WISH)).lower())


def test_a_stack_waits_for_the_one_before() -> None:
    found = stacks(replace(WISH, after="staging"))
    assert found["prod"]["prerequisites"] == [{"name": "staging"}]
    assert "prerequisites" not in found["prod-drift"]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (replace(WISH, stack="a" * (LONGEST_NAME - 5)), "at most 36"),
        (replace(WISH, stack="Prod"), "can't be a Stack's name"),
        (replace(WISH, backend=""), "state:backend"),
        (replace(WISH, backend="file:///state"), "needs a backend that stays"),
        (replace(WISH, source=Source()), "--repository URL, or --flux NAME"),
        (replace(WISH, source=Source("https://me:pass@git.example.com/x")), "gitAuth"),
    ],
)
def test_what_can_not_be_is_said_in_a_sentence(wish: Wish, said: str) -> None:
    with pytest.raises(OperatorStackError, match=re.escape(said)):
        files(wish)


def test_the_command_writes_a_kustomization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.prod.yaml").write_text((ROOT / "Pulumi.prod.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    assert (
        command.main(["operator", "--stack", "prod", "--repository", "https://x.example.com/y", "--image", "i:1"]) == 0
    )
    out = tmp_path / "deploy/operator/prod"
    kustomization = yaml.safe_load((out / "kustomization.yaml").read_text())
    assert {path.name for path in out.iterdir()} == {"kustomization.yaml", *kustomization["resources"]}
    [stack] = yaml.safe_load_all((out / "stack.yaml").read_text())
    assert stack["spec"]["backend"].startswith("s3://research-prod-state")
    assert "secretsProvider" not in stack["spec"], "a passphrase is no provider of its own"
    assert command.main(["operator", "--stack", "nosuch", "--flux", "x", "--image", "i:1"]) == 20
