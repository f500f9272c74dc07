"""Clusters of Crusoe Managed Slurm.

The API makes and deletes them and changes nothing of them (description of 2026-07-20), so a changed property is refused
in the preview unless `replaceOnChange` agrees to lose the shared /home and the queue. It does not link a Slurm cluster
to the CMK cluster on which it runs; that one has the same name, and is looked up by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, cast

from crusoe.client import CrusoeError
from crusoe.provider import kubeconfig
from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.faults import RefusalError
from crusoe.provider.findings import failures
from crusoe.provider.node_pools import type_faults
from crusoe.provider.objects import ADOPT, ApiObject
from crusoe.provider.places import LOCATION, location_faults
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, Flag, ListOf, Text, Whole
from crusoe.provider.slurm_states import has_failed, issues_left, issues_of, state_of
from crusoe.provider.values import Value, Values

KUBERNETES_CLUSTERS: Final = "kubernetes/clusters"

ENDPOINT_SECONDS: Final = 600.0
"""How long a running cluster may lack its login address or its Kubernetes cluster, or that one's API stay silent."""

_SENT: Final = {
    "name": "name",
    "location": "location",
    "rootSshPublicKeys": "root_ssh_pub_keys",
    "subnetId": "subnet_id",
    "loginNodeType": "login_node_type",
    "loginReplicas": "login_replicas",
    "homeVolumeSize": "home_volume_size",
}


def _same_size(one: str, other: str) -> bool:
    from crusoe.rules.slurm_managed import home_bytes

    return one == other or (home_bytes(one) is not None and home_bytes(one) == home_bytes(other))


def _same_key(one: str, other: str) -> bool:
    return one.split() == other.split()


class SlurmCluster(ApiObject):
    """A cluster of Crusoe Managed Slurm."""

    name = "SlurmCluster"
    title = "Slurm cluster"
    description = (
        "A cluster of Crusoe Managed Slurm with controller, login nodes and shared /home; done when it runs and the API"
        " of its CMK cluster answers. Crusoe can't change one: a changed input is refused unless replaceOnChange agrees"
        " to a replacement, which destroys /home and the queue."
    )
    collection = "slurm/clusters"
    seconds: ClassVar[Mapping[str, float]] = {"create": 5400, "update": 5400, "delete": 3600, "read": 120}
    properties = (
        Property("name", Text(), "Name of the Slurm cluster, and of its CMK cluster.", required=True),
        replace(LOCATION, effect=Effect.UPDATE),
        Property(
            "rootSshPublicKeys", ListOf(Text(equal=_same_key)), "SSH public keys of root, at least one.", required=True
        ),
        Property("subnetId", Text(), "Id of the VPC subnet; a default one when left out.", computed=True),
        Property("loginNodeType", Text(), "VM type for controller and login; c1a.8x when left out.", computed=True),
        Property("loginReplicas", Whole(1), "Login pods; 1 when left out.", computed=True),
        Property(
            "homeVolumeSize",
            Text(equal=_same_size),
            "Size of the shared /home in whole Ti, such as 10Ti (when left out); the empty text for none.",
            computed=True,
        ),
        Property(
            "replaceOnChange",
            Flag(),
            "Consent that a changed input replaces the cluster, which destroys /home, the queue and running jobs.",
            effect=Effect.LOCAL,
            assumed=False,
        ),
        ADOPT,
    )
    outputs = (
        Output("loginHost", Text(), "Address of the login nodes.", stable=False),
        Output("slurmVersion", Text(), "Slurm version with Crusoe's build.", stable=False),
        Output("kubernetesClusterId", Text(), "Id of the CMK cluster on which it runs, found by its name."),
        Output(
            "kubeconfig",
            Text(),
            "Kubeconfig of an administrator of that cluster, renewed by an `up` when its certificate nears its end.",
            secret=True,
            stable=False,
        ),
    )

    # Check and diff

    def faults(self, news: Values) -> list[Failure]:
        """Check name, keys, sizes and counts."""
        from crusoe.rules import slurm_managed as rules

        return failures(
            [
                *rules.cluster_name("name", news.get("name")),
                *rules.root_keys("rootSshPublicKeys", news.get("rootSshPublicKeys")),
                *rules.home_size("homeVolumeSize", news.get("homeVolumeSize")),
                *rules.login_node_type("loginNodeType", news.get("loginNodeType")),
            ]
        )

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check location and VM type against those that there are."""
        found = location_faults(session, olds, news)
        if olds.get("loginNodeType") != news.get("loginNodeType"):
            found += type_faults(session, "loginNodeType", news.get("loginNodeType"))
        return found

    def differences(self, old_inputs: Values, state: Values, news: Values) -> list[Difference]:
        """Let a change replace where that was agreed to; otherwise it will be refused."""
        found = super().differences(old_inputs, state, news)
        return [replace(each, replaces=True) for each in found] if news.get("replaceOnChange") is True else found

    def upkeep(self, state: Values) -> list[Difference]:
        """Renew the kubeconfig near its certificate's end."""
        return kubeconfig.renewal(state)

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Refuse what would need a replacement that nobody agreed to."""
        from crusoe.rules import slurm_managed as rules

        changed = sorted({change.property for change in changes} - {"kubeconfig"})
        found = rules.replacement("inputs", state.get("name"), changed, news.get("replaceOnChange"))
        return f"Slurm cluster {state.get('name')}: {found[0].problem}. {found[0].fix}." if found else None

    def lost_by_replacing(self, state: Values) -> str:
        """Say what is lost."""
        return (
            f"Replacing Slurm cluster {state.get('name')} deletes it first, with its shared /home, its queue and every"
            " running job."
        )

    # The API

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request; what is unset is left out, and an empty home size means none."""
        del run
        return {key: inputs[name] for name, key in _SENT.items() if inputs.get(name) is not None}

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells; the empty home size is told as such or not at all."""
        del run, asked
        told: Values = {"name": text(fields, "name"), "location": text(fields, "location")}
        if "root_ssh_pub_keys" in fields:
            told["rootSshPublicKeys"] = cast("Value", texts(fields, "root_ssh_pub_keys"))
        if isinstance(fields.get("home_volume_size"), str):
            told["homeVolumeSize"] = cast("str", fields["home_volume_size"])
        optional = {
            "subnetId": "subnet_id",
            "loginNodeType": "login_node_type",
            "loginReplicas": "login_replicas",
            "loginHost": "login_node_endpoint",
            "slurmVersion": "version",
        }
        return told | {
            name: cast("Value", fields[key]) for name, key in optional.items() if fields.get(key) not in (None, "")
        }

    def explain(self, run: Run, inputs: Values, error: CrusoeError) -> str:
        """Say what was being done, and the issues of what a failure left behind."""
        return f"{super().explain(run, inputs, error)}{issues_left(self, run, inputs, error)}"

    def settle(
        self, run: Run, object_id: str, inputs: Values, fields: JsonObject, state: Values
    ) -> tuple[JsonObject, Values]:
        """Wait until the cluster runs and can be logged in to; find its CMK cluster and see to the kubeconfig."""
        del fields
        name, first = str(inputs.get("name")), "kubeconfig" not in state
        now = self._running(run, object_id, name, was_running=not first)
        known = state.get("kubernetesClusterId")
        cluster_id = known if isinstance(known, str) else self._behind(run, name, text(now, "location"))
        config = state.get("kubeconfig")
        if not isinstance(config, str) or kubeconfig.due(config, run.session.clock.now()):
            run.progress("fetching the kubeconfig")
            config = kubeconfig.fetch(run.client, cluster_id)
        if first:
            self._answering(run, name, config)
            run.warn(
                f"Login to Slurm cluster {name} at {text(now, 'login_node_endpoint')} is open to every address until"
                " firewallRuleSourceRanges is set on its SlurmCluster object in the CMK cluster."
            )
        return now, {"kubernetesClusterId": cluster_id, "kubeconfig": config}

    def _running(self, run: Run, object_id: str, name: str, *, was_running: bool) -> JsonObject:
        what = f"Slurm cluster {name} ({object_id})"
        seen: list[JsonObject] = [{}]
        running_since: list[float] = []

        def look() -> JsonObject | None:
            now = seen[0] = self.get(run, object_id) or {}
            state = state_of(now)
            if not now or has_failed(now):
                raise RefusalError(
                    f"{what} is {state or 'gone'}.{issues_of(now)} Put that right, then make it anew with `pulumi up"
                    f" --replace '{run.urn}'`, or ask Crusoe's support."
                )
            if "UNHEALTHY" in state and was_running:
                run.warn(f"{what} is {state}.{issues_of(now)}")
                return now
            if "RUNNING" not in state:
                run.progress(f"Slurm cluster {name} is {state or 'without a state'}")
                return None
            if text(now, "login_node_endpoint"):
                return now
            running_since.append(run.now)
            if run.now - running_since[0] > ENDPOINT_SECONDS:
                raise RefusalError(f"{what} runs but has no login address after {ENDPOINT_SECONDS:.0f} s.")
            run.progress(f"waiting for the login address of Slurm cluster {name}")
            return None

        found = run.until(look)
        if found is None:
            raise RefusalError(
                f"{what} is still {state_of(seen[0])} after {run.seconds:.0f} s.{issues_of(seen[0])} The next `pulumi"
                " up` goes on waiting."
            )
        return found

    def _behind(self, run: Run, name: str, location: str | None) -> str:
        """Return the id of the CMK cluster of this name in the location."""

        def look() -> list[str] | None:
            found = run.existing.find(KUBERNETES_CLUSTERS, name, since=run.now)
            here = [each for each in found if location is None or text(each, "location") in {None, location}]
            run.progress(f"looking for the CMK cluster {name}")
            return [cluster_id for each in here if (cluster_id := text(each, "id"))] or None

        ids = run.until(look, ENDPOINT_SECONDS)
        if ids is None:
            raise RefusalError(
                f"Slurm cluster {name} runs, but the project shows no Kubernetes cluster of that name, on which it has"
                " to run; ask Crusoe's support, and run the same command again."
            )
        if len(ids) > 1:
            raise RefusalError(
                f"There are {len(ids)} Kubernetes clusters named {name} ({', '.join(ids)}), so it is not clear on which"
                " one the Slurm cluster runs; delete or rename the others."
            )
        return ids[0]

    def _answering(self, run: Run, name: str, config: str) -> None:
        """Wait until the CMK cluster's API server answers."""
        why: list[str] = []

        def look() -> bool | None:
            fault = kubeconfig.answers(config, kubeconfig.ANSWER_SECONDS, run.session.cancel)
            why[:] = [fault] if fault else []
            if fault:
                run.progress(f"waiting for the API of the CMK cluster {name}: {fault}")
            return None if fault else True

        if not run.until(look, ENDPOINT_SECONDS):
            raise RefusalError(
                f"Slurm cluster {name} runs, but the API of its CMK cluster at {kubeconfig.server(config)} does not"
                f" answer from here ({why[0]}); run this where it does."
            )

    # Read

    def imported_outputs(self, run: Run, object_id: str, fields: JsonObject) -> Values:
        """Find the CMK cluster and fetch a kubeconfig for an imported cluster."""
        del object_id
        cluster_id = self._behind(run, str(text(fields, "name")), text(fields, "location"))
        return {"kubernetesClusterId": cluster_id, "kubeconfig": kubeconfig.fetch(run.client, cluster_id)}


KINDS = (SlurmCluster(),)
