"""The API's description says something about every route, and the routes keep to one pattern."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from localcloud.api.families import FAMILIES, WORKS
from localcloud.app import api_app


@cache
def description() -> dict[str, Any]:
    """Made at the first need: it takes longer than to collect the tests."""
    return api_app().openapi()


def calls() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, call)
        for path, methods in description()["paths"].items()
        for method, call in methods.items()
    ]


def test_every_route_is_described() -> None:
    assert len(calls()) > 70
    for method, path, call in calls():
        assert call["description"], (method, path)
        answer = call["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer.get("$ref"), (method, path)
        assert {"400", "401", "403", "404"} <= set(call["responses"])
        if method in ("PATCH", "PUT"):
            assert call["requestBody"]["content"]["application/json"]["schema"].get("$ref"), (method, path)


def test_every_part_of_a_path_is_described_once() -> None:
    for method, path, call in calls():
        named = [parameter["name"] for parameter in call.get("parameters", ()) if parameter["in"] == "path"]
        assert sorted(named) == sorted(re.findall(r"{(\w+)}", path)), (method, path)


def test_requests_are_closed_and_described() -> None:
    for name, schema in description()["components"]["schemas"].items():
        if name in ("HTTPValidationError", "ValidationError"):
            continue
        assert schema["description"], name
        assert schema.get("additionalProperties") is False, name


def test_every_asynchronous_family_has_operations() -> None:
    paths = description()["paths"]
    for family in FAMILIES:
        if family.operations:
            assert f"/v1/projects/{{project_id}}/{family.operations}/operations" in paths
            assert f"/v1/projects/{{project_id}}/{family.operations}/operations/{{operation_id}}" in paths


def test_works_have_one_owner() -> None:
    assert len(WORKS) == sum(len(family.works) for family in FAMILIES)


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """What is loaded in one new interpreter after the command line, and after the server on top of it."""
    code = """
import json, sys
import localcloud.cli
cli = list(sys.modules)
import localcloud.server
print(json.dumps({"cli": cli, "server": list(sys.modules)}))
"""
    return json.loads(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)


def among(names: list[str], *packages: str) -> list[str]:
    return [name for name in names if any(name == part or name.startswith(f"{part}.") for part in packages)]


def test_nothing_of_the_platform_is_imported(loaded: dict[str, list[str]]) -> None:
    assert among(loaded["server"], "localcloud.server")
    assert among(loaded["server"], "crusoe", "components", "pulumi", "pulumi_kubernetes") == []


def test_the_start_is_light(loaded: dict[str, list[str]]) -> None:
    """The command line does without the server's libraries, the server without the control planes'."""
    assert among(loaded["cli"], "fastapi", "pydantic", "yaml", "uvicorn") == []
    assert among(loaded["server"], "localcloud.kubernetes", "tools", "cryptography", "kubernetes") == []
