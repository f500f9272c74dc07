"""Writes docs/policies.md and the schema of the configuration from the policies: `python -m policies.docs`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from crusoe.rules.values import items, table
from policies import settings
from policies.pack import POLICIES, TOPICS
from policies.policy import Example, Policy, StackPolicy

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "policies.md"
SCHEMA = settings.FILE.with_name("config.schema.json")

INTRODUCTION = """\
# Policies

<!-- Made by `python -m policies.docs` from the policies; change those. -->

A policy pack refuses unsafe GPU platforms before they exist, and says how to put them right. It works on any Pulumi
program that uses the crusoe provider or pulumi-kubernetes. Here `make up`, `make preview` and a shell prepared with
`eval "$(make -s env)"` run it on every stack. For another program, make a folder that needs nothing of this project:

```sh
make policy-pack                                                     # writes .local/policy-pack
python3 -m venv .local/policy-pack/venv
.local/policy-pack/venv/bin/pip install -r .local/policy-pack/requirements.txt
pulumi preview --policy-pack .local/policy-pack                      # in the folder of the program
pulumi policy publish                                                # in .local/policy-pack, for an organisation
```

* **Resource policies** judge one resource by its inputs, so `pulumi up` stops before the request is sent. **Stack
  policies** judge resources against each other, at the end of the preview and again at the end of the `up`. With
  `--skip-preview` they speak when everything is there already; each says so.
* **mandatory** ends the run with an error, **advisory** is only told.
* A value that is not known in a preview is an outcome of its own: `can't be checked until up`, as advice. The `up`
  checks it, a resource policy again before the request is sent.

## Configuration

`policies/config.json`, of this clone or of the folder that `make policy-pack` has made; its schema is
`config.schema.json` beside it. `--policy-pack-config FILE` or a policy group of an organisation lays its own over it.
A configuration that is not understood ends every run.

```json
{
  "gpu-limit-stack": {"maxGpus": 512, "maxGpusByType": {"h100-80gb-sxm-ib.8x": 256}},
  "gpu-pool-repairable": "disabled",
  "gpu-pool-whole-host": {
    "enforcementLevel": "mandatory",
    "exemptions": [{"resource": "pool-a", "reason": "moves to whole hosts in spring", "expires": "2027-03-31"}]
  }
}
```

An exemption is of one policy for one resource, by its whole name in the program or its URN, until the end of a day in
UTC. Afterwards the resource is refused again, and the message says that its exemption has ended. Exemptions that count
are listed in every report, and so are those that mean nothing any more.
"""


def document() -> str:
    """Return docs/policies.md."""
    return "\n".join([INTRODUCTION, *_contents(), *(line for topic in TOPICS for line in _topic(topic))])


def _contents() -> Iterator[str]:
    yield "## All policies\n"
    yield "| policy | level | judges | |\n|---|---|---|---|"
    for policy in POLICIES:
        judges = "the stack" if _of_stack(policy) else "a resource"
        yield f"| [{policy.name}](#{policy.name}) | {policy.level} | {judges} | {policy.refuses} |"
    yield ""


def _topic(topic: str) -> Iterator[str]:
    yield f"## {topic}\n"
    for policy in TOPICS[topic]:
        yield from _section(policy)


def _of_stack(policy: Policy) -> bool:
    return isinstance(policy, StackPolicy) or policy.name.startswith("exemption-")


def _section(policy: Policy) -> Iterator[str]:
    yield f"### {policy.name}\n"
    yield f"{policy.refuses} *{policy.level.capitalize()}.*\n"
    yield f"* **Why:** {policy.why}"
    yield f"* **Fix:** {policy.fix}"
    if isinstance(policy, StackPolicy):
        yield f"* **What exists when it speaks:** {policy.already}"
    for key, schema in policy.parameters.items():
        yield f"* **Parameter `{key}`:** {schema['description']} Default `{json.dumps(schema['default'])}`."
    yield ""
    if not policy.name.startswith("exemption-"):
        yield from _example("Bad", policy.bad)
        yield from _example("Good", policy.good)


def _example(kind: str, example: Example) -> Iterator[str]:
    where = "" if example.stack == "dev" else f" (in the stack `{example.stack}`)"
    yield f"{kind}: {example.says[0].lower()}{example.says[1:]}{where}\n"
    declared = {str(each["name"]): _declared(each) for each in example.resources}
    yield f"```yaml\n{yaml.safe_dump({'resources': declared}, sort_keys=False, width=110).rstrip()}\n```\n"


def _declared(resource: Mapping[str, object]) -> dict[str, object]:
    """Return a resource as Pulumi's YAML writes it."""
    properties = {**table(resource["properties"])}
    properties |= {key: f"${{{name}.id}}" for key, name in table(resource.get("from")).items()}
    options = {key: resource[key] for key in ("protect", "deleteBeforeReplace") if key in resource}
    return {
        "type": resource["type"],
        "properties": _plain(properties),
        **({"options": options} if options else {}),
    }


def _plain(value: object) -> object:
    entries, listed = table(value), items(value)
    if entries or value == {}:
        return {key: _plain(each) for key, each in entries.items()}
    return [_plain(each) for each in listed] if listed or value == [] else value


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
    SCHEMA.write_text(settings.schema_text(), encoding="utf-8")
