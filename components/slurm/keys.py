"""Slurm's secrets: the key that daemons trust each other by, the key of its tokens, and the database's passwords.

Made once, kept in state as secrets, drawn anew only when `keyVersion` changes. Whoever reads Slurm's key is root in
Slurm, and with that on every node; nobody gets it but Slurm's own pods.

What breaks if violated: daemons with different keys do not speak to each other, and running workers keep the old one
until they are restarted, so a new key is a maintenance with all nodes drained (docs/runbooks/rotate-slurm-keys.md).
"""

from collections.abc import Callable, Mapping

import pulumi

from components.cluster import Cluster
from components.kubernetes import KubernetesObject
from components.slurm import objects
from components.slurm.charts import NAMESPACE
from components.slurm.plan import SlinkyPlan
from crusoe.resources import GeneratedSecret

SLURM_KEY_BYTES = 1024
JWT_KEY_BYTES = 32
PASSWORD_CHARACTERS = 32


class Keys(pulumi.ComponentResource):
    """All secrets of Slurm, as Secrets of its namespace.

    Attributes:
        all: the Secrets, which the daemons' objects wait for.
    """

    all: list[pulumi.Resource]

    def __init__(
        self,
        name: str,
        plan: SlinkyPlan,
        *,
        cluster: Cluster,
        namespace: pulumi.Resource,
        secrets: Callable[[str], pulumi.Output[str]],
        protect: bool,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the secrets that the plan needs; `secrets` reads one of the stack's by its name."""
        super().__init__("gpuplatform:slurm:Keys", name, None, opts)
        keepers = {"keyVersion": str(plan.key_version)}

        def drawn(thing: str, length: int, encoding: str, kept: Mapping[str, str] | None = None) -> pulumi.Output[str]:
            secret = GeneratedSecret(
                f"{name}-{thing}",
                length=length,
                encoding=encoding,
                keepers=kept,
                opts=pulumi.ResourceOptions(parent=self, protect=protect),
            )
            return secret.value

        def stored(
            thing: str, secret: str, fields: Mapping[str, pulumi.Input[Mapping[str, pulumi.Input[str]]]]
        ) -> None:
            metadata = {"name": secret, "namespace": NAMESPACE}
            options = cluster.inside(self, [namespace])
            self.all.append(KubernetesObject(f"{name}-{thing}-secret", "v1", "Secret", metadata, fields, options))

        self.all = []
        slurm = drawn("slurm", SLURM_KEY_BYTES, "base64", keepers)
        jwt = drawn("jwt", JWT_KEY_BYTES, "base64", keepers)
        # `data` is base64 already, and the keys are bytes, not text.
        stored("slurm", objects.SLURM_KEY["name"], {"data": {objects.SLURM_KEY["key"]: slurm}})
        stored("jwt", objects.JWT_KEY["name"], {"data": {objects.JWT_KEY["key"]: jwt}})
        if plan.accounting is not None:
            if plan.database_password_secret:
                passwords = {"password": secrets(plan.database_password_secret)}
            else:
                # Not with keyVersion: changing the Secret does not change the password inside the database.
                passwords = {
                    "password": drawn("database", PASSWORD_CHARACTERS, "alphanumeric"),
                    "root-password": drawn("database-root", PASSWORD_CHARACTERS, "alphanumeric"),
                }
            stored("database", objects.DATABASE_PASSWORD["name"], {"stringData": passwords})
        self.register_outputs({"keyVersion": plan.key_version})
