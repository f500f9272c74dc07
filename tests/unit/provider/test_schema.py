"""The schema follows the declarations, and the Python classes follow the schema, both ways."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any, cast, get_type_hints

import pulumi
import pytest

from crusoe import resources
from crusoe.provider.registry import KINDS, LOOKUPS
from crusoe.provider.schema import schema
from crusoe.provider.service import VERSION
from crusoe.resources import base, lookups

PACKAGE = schema(VERSION, KINDS, LOOKUPS)
TYPES: Any = PACKAGE["types"]
RESOURCES: Any = PACKAGE["resources"]
FUNCTIONS: Any = PACKAGE["functions"]


def references(value: object) -> list[str]:
    """Every `$ref` anywhere in JSON values."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        own = [str(fields["$ref"])] if "$ref" in fields else []
        return own + [ref for item in fields.values() for ref in references(item)]
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [ref for item in items for ref in references(item)]


def undescribed(value: object, path: str = "") -> list[str]:
    """Paths of properties without a description."""
    if not isinstance(value, dict):
        return []
    found: list[str] = []
    for key, item in cast("dict[str, object]", value).items():
        if key in {"inputProperties", "properties"}:
            for name, one in cast("dict[str, dict[str, object]]", item).items():
                found += [] if one.get("description") else [f"{path}.{name}"]
        found += undescribed(item, f"{path}.{key}")
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match[1].lower()}", name)


def test_it_is_json_and_every_reference_is_there() -> None:
    text = json.loads(json.dumps(PACKAGE))
    assert text["name"] == "crusoe"
    assert {ref.removeprefix("#/types/") for ref in references(text)} == set(TYPES)


def test_everything_has_a_description() -> None:
    assert not undescribed(PACKAGE)


def test_secrets_and_replacements_are_marked() -> None:
    cluster = RESOURCES["crusoe:index:KubernetesCluster"]
    assert cluster["properties"]["kubeconfig"]["secret"] is True
    assert cluster["inputProperties"]["location"]["replaceOnChanges"] is True
    assert "replaceOnChanges" not in cluster["inputProperties"]["apiserverExtraArgs"]
    assert RESOURCES["crusoe:index:GeneratedSecret"]["properties"]["value"]["secret"] is True


def test_keys_are_no_configuration() -> None:
    provider: Any = PACKAGE["provider"]
    assert set(provider["inputProperties"]) == {"endpoint", "project"}


@pytest.mark.parametrize("token", sorted(RESOURCES))
def test_each_resource_class_has_exactly_the_schemas_names(token: str) -> None:
    name = token.rpartition(":")[2]
    cls: Any = getattr(resources, name)
    inputs: Any = getattr(inspect.getmodule(cls), f"{name}Inputs")
    assert {base.camel(one) for one in inputs.__annotations__} == set(RESOURCES[token]["inputProperties"])
    assert {base.camel(one) for one in cls.__annotations__ if not one.startswith("_")} == set(
        RESOURCES[token]["properties"]
    )
    required = {base.camel(key) for key, kind in inputs.__annotations__.items() if "NotRequired[" not in str(kind)}
    assert required == set(RESOURCES[token]["requiredInputs"])


@pytest.mark.parametrize("token", sorted(FUNCTIONS))
def test_each_look_up_has_exactly_the_schemas_names(token: str) -> None:
    name = snake(token.rpartition(":")[2])
    outputs = {base.camel(snake(one)) for one in FUNCTIONS[token]["outputs"]["properties"]}
    for form in (name, f"{name}_output"):
        signature = inspect.signature(getattr(resources, form))
        assert {base.camel(one) for one in signature.parameters if one != "opts"} == set(
            FUNCTIONS[token]["inputs"]["properties"]
        )
    result = get_type_hints(getattr(lookups, name))["return"]
    assert {base.camel(one) for one in result.__annotations__} == outputs


@pytest.mark.parametrize("token", sorted(TYPES))
def test_each_output_type_has_exactly_the_schemas_names(token: str) -> None:
    names = {
        "KubernetesClusterOidc": "Oidc",
        "NodePoolReservation": "Reservation",
        "NodePoolAutoscaling": "Autoscaling",
    }
    bare = token.rpartition(":")[2]
    cls: Any = getattr(resources, names.get(bare, bare))
    assert {base.camel(one) for one in cls.__annotations__} == set(TYPES[token]["properties"])


class Recorder(pulumi.runtime.Mocks):
    """Keeps what a program registers."""

    def __init__(self) -> None:
        self.seen: dict[str, pulumi.runtime.MockResourceArgs] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.seen[args.name] = args
        inputs: dict[str, Any] = cast("Any", args).inputs
        return f"{args.name}-id", {**inputs, "missingNodes": 1.0, "autoscaling": {"min": 2.0, "max": 3.0}}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        assert args.token == "crusoe:index:getQuotas"
        return {"quotas": [{"name": "h100", "max": 8.0, "used": 1.0, "available": 7.0}]}, []


def deploy(program: Callable[[], object]) -> None:
    """Run a program to its end, all its outputs awaited."""
    cast("Callable[[Callable[[], object]], Callable[[], None]]", cast("Any", pulumi.runtime).test)(program)()


class TestClasses:
    @pytest.fixture(autouse=True)
    def mocks(self) -> None:
        self.recorder = Recorder()
        pulumi.runtime.set_mocks(self.recorder)

    def test_names_are_translated_and_keys_inside_values_are_not(self) -> None:
        seen: list[Any] = []

        def program() -> pulumi.Output[Any]:
            pool = resources.KubernetesNodePool(
                "pool",
                name="physical",
                cluster_id="c",
                type="t",
                node_labels={"clusterId": "a", "snake_case": "b"},
                autoscaling={"min": 2, "max": 3},
            )
            parts = pulumi.Output.all(
                pool.missing_nodes, pool.node_labels, pool.autoscaling, pool.cluster_id, pool.count
            )
            return parts.apply(seen.extend)

        deploy(program)
        inputs: dict[str, Any] = cast("Any", self.recorder.seen["pool"]).inputs
        assert inputs == {
            "name": "physical",
            "clusterId": "c",
            "type": "t",
            "nodeLabels": {"clusterId": "a", "snake_case": "b"},
            "autoscaling": {"min": 2, "max": 3},
        }
        missing, labels, bounds, cluster, count = seen
        assert (missing, type(missing)) == (1, int)
        assert labels == {"clusterId": "a", "snake_case": "b"}
        assert (bounds.min, bounds.max) == (2, 3)
        assert (cluster, count) == ("c", None)

    def test_a_look_up_answers_in_both_forms(self) -> None:
        seen: list[Any] = []

        def program() -> pulumi.Output[Any]:
            seen.append(resources.get_quotas().quotas[0].available)
            return resources.get_quotas_output().apply(lambda found: seen.append(found.quotas[0].name))

        deploy(program)
        assert seen == [7, "h100"]

    def test_the_provider_takes_no_keys(self) -> None:
        names = set(inspect.signature(resources.Provider.__init__).parameters)
        assert names == {"self", "resource_name", "project", "endpoint", "opts"}
