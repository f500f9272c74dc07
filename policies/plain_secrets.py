"""No credential in clear, in any property of any resource."""

from __future__ import annotations

from collections.abc import Iterator

from crusoe.rules import credentials
from crusoe.rules.finding import Finding
from policies import values
from policies.policy import Parameters, Resource, ResourcePolicy, example

# What they hold is public, or its fields' names only look like those of secrets.
_PUBLIC_FIELDS = ("status.",)


def _any(token: str) -> bool:
    return not token.startswith("pulumi:pulumi:")


def _in_clear(resource: Resource, _: Parameters) -> Iterator[Finding]:
    if resource.sent is not None:
        for path, key, text in values.texts_in_clear(resource.sent):
            if not path.startswith(_PUBLIC_FIELDS):
                yield from credentials.in_clear(path, key, text)


POLICIES = [
    ResourcePolicy(
        name="secret-in-clear",
        refuses="No property holds a credential in clear.",
        why="It stands in state, in previews and in logs for everybody who reads one of them.",
        fix="Set it with `pulumi config set --secret` and read it with require_secret.",
        applies=_any,
        check=_in_clear,
        good=example(
            "The credential is in a Secret, and named here.",
            {
                "type": "kubernetes:core/v1:Pod",
                "name": "job",
                "properties": {
                    "spec": {
                        "containers": [
                            {
                                "name": "job",
                                "image": "job:1.0.0",
                                "env": [
                                    {
                                        "name": "HF_TOKEN",
                                        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                                    }
                                ],
                            }
                        ]
                    }
                },
            },
        ),
        bad=example(
            "A private key in a ConfigMap.",
            {
                "type": "kubernetes:core/v1:ConfigMap",
                "name": "keys",
                "properties": {"data": {"id": "-----BEGIN OPENSSH PRIVATE KEY-----\n..."}},
            },
        ),
    ),
]
