"""CMK clusters of both generations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import ClassVar, Final, cast

from crusoe.client import NotFound
from crusoe.provider import kubeconfig
from crusoe.provider.existing import JsonObject, text, texts
from crusoe.provider.faults import RefusalError
from crusoe.provider.findings import failures
from crusoe.provider.networking import CIDR
from crusoe.provider.objects import ADOPT, ApiObject
from crusoe.provider.places import LOCATION, location_faults
from crusoe.provider.properties import Difference, Effect, Output, Property
from crusoe.provider.run import Run
from crusoe.provider.session import Session
from crusoe.provider.shapes import Failure, Field, Flag, ListOf, MapOf, Record, Text, Whole, did_you_mean
from crusoe.provider.values import UNKNOWN, Value, Values

PRIVATE_SECONDS: Final = 15.0
"""How long a private cluster's API server may stay silent: it answers from inside its network, or not at all."""

ADD_ON_SECONDS: Final = 600.0

_EXTRA_ARGS = {
    "apiserverExtraArgs": "apiserver_extra_args",
    "schedulerExtraArgs": "scheduler_extra_args",
    "controllerManagerExtraArgs": "controller_manager_extra_args",
}
_OIDC = {
    "issuerUrl": "issuer_url",
    "clientId": "client_id",
    "usernameClaim": "username_claim",
    "usernamePrefix": "username_prefix",
    "groupsClaim": "groups_claim",
    "caCert": "ca_cert",
}


def same_version(one: str, other: str) -> bool:
    """Compare versions by meaning: one without Crusoe's build number stands for every build of it."""
    if one == other:
        return True
    bare, built = sorted((one, other), key=len)
    return "-cmk." not in bare and built.startswith(f"{bare}-cmk.")


def generation_of(version: Value) -> str | None:
    """Return `v1` or `v2`, None for what is no version."""
    from crusoe.rules import versions

    return versions.generation_of(version)


def _extra_args(name: str, of: str) -> Property:
    return Property(
        name,
        MapOf(Text()),
        f"Extra arguments of the {of}, in effect from the control plane's next rotation on.",
        assumed={},
    )


class KubernetesCluster(ApiObject):
    """A CMK cluster."""

    name = "KubernetesCluster"
    title = "Kubernetes cluster"
    description = (
        "A CMK cluster; done when its API answers. The form of the version tells the generation: 1.33.4-cmk.43 is CMK"
        " v1, a bare 1.35.5 is CMK v2."
    )
    collection = "kubernetes/clusters"
    seconds: ClassVar[Mapping[str, float]] = {"create": 3600, "update": 1800, "delete": 1800, "read": 120}
    properties = (
        Property("name", Text(), "Name of the cluster.", required=True, effect=Effect.REPLACE),
        LOCATION,
        Property(
            "version",
            Text(equal=same_version),
            "Kubernetes version, such as 1.33.4-cmk.43. It can't be changed in place: Crusoe upgrades on request.",
            required=True,
        ),
        Property(
            "subnetId",
            Text(),
            "Id of the VPC subnet; the location's default one when left out.",
            effect=Effect.REPLACE,
            computed=True,
        ),
        Property("clusterCidr", CIDR, "Range of the pods' addresses.", effect=Effect.REPLACE, computed=True),
        Property(
            "serviceClusterIpRange", CIDR, "Range of the Services' addresses.", effect=Effect.REPLACE, computed=True
        ),
        Property(
            "nodeCidrMaskSize",
            Whole(1, 32),
            "Prefix length of one node's range of pod addresses.",
            effect=Effect.REPLACE,
            computed=True,
        ),
        Property(
            "addOns",
            ListOf(Text()),
            "Add-ons, such as nvidia_gpu_operator. On CMK v1 a change replaces the cluster.",
            assumed=[],
        ),
        Property(
            "private",
            Flag(),
            "Whether the API is reachable from inside the network only.",
            effect=Effect.REPLACE,
            assumed=False,
        ),
        Property(
            "routingMode",
            Text(("overlay", "native")),
            "How pods are routed (CMK v2).",
            effect=Effect.REPLACE,
            computed=True,
        ),
        Property(
            "oidc",
            Record(
                "KubernetesClusterOidc",
                (
                    Field("issuerUrl", Text(), "https address of the issuer.", required=True),
                    Field("clientId", Text(), "Client id.", required=True),
                    Field("usernameClaim", Text(), "Claim with the user's name; sub when left out."),
                    Field("usernamePrefix", Text(), "Put before user names."),
                    Field("groupsClaim", Text(), "Claim with the user's groups."),
                    Field("caCert", Text(), "PEM certificate of the issuer's authority."),
                ),
            ),
            "Sign-in through an OIDC provider.",
            effect=Effect.REPLACE,
            write_only=True,
        ),
        _extra_args("apiserverExtraArgs", "API server"),
        _extra_args("schedulerExtraArgs", "scheduler"),
        _extra_args("controllerManagerExtraArgs", "controller manager"),
        ADOPT,
    )
    outputs = (
        Output("projectId", Text(), "Id of the project that the cluster belongs to."),
        Output("dnsName", Text(), "Host name of the API server."),
        Output("generation", Text(("v1", "v2")), "CMK generation."),
        Output(
            "kubeconfig",
            Text(),
            "Kubeconfig of an administrator, renewed by an `up` when its certificate nears its end.",
            secret=True,
            stable=False,
        ),
    )

    # Check and diff

    def faults(self, news: Values) -> list[Failure]:
        """Check version, ranges, sign-in, and that no setting belongs to the other generation."""
        from crusoe.rules import cluster, network

        found = failures(cluster.version("version", news.get("version")))
        for name in ("clusterCidr", "serviceClusterIpRange"):
            found += failures(network.cidr(name, news.get(name), private=False))
        found += failures(cluster.oidc("oidc", news.get("oidc")))
        if generation_of(news.get("version")) == "v1" and news.get("routingMode") is not None:
            found.append(Failure("routingMode", "is a setting of CMK v2, and the version is v1. Leave it out."))
        return found

    def remote_faults(self, session: Session, olds: Values, news: Values) -> list[Failure]:
        """Check the location, and a new cluster's version, against those that there are."""
        from crusoe.rules import versions

        found = location_faults(session, olds, news)
        version = news.get("version")
        if olds or not isinstance(version, str):
            return found
        answer = session.client.get("kubernetes/versions", show_deprecated="true")
        rows = cast("list[JsonObject]", answer.get("kubernetes_cluster_versions") or [])
        known = [name for row in rows if (name := text(row, "cluster_version_name"))]
        if not known or version in known:
            return found
        newest = versions.newest_like(version, known)
        hint = f" Did you mean {newest!r}?" if newest else did_you_mean(version, known)
        return [*found, Failure("version", f"{version} is not offered.{hint} Offered are {', '.join(known)}.")]

    def replacing(self, state: Values) -> Collection[str]:
        """CMK v1 sets add-ons at creation only."""
        return () if state.get("generation") == "v2" else ("addOns",)

    def upkeep(self, state: Values) -> list[Difference]:
        """Renew the kubeconfig near its certificate's end."""
        return kubeconfig.renewal(state)

    def refusal(self, state: Values, news: Values, changes: Sequence[Difference]) -> str | None:
        """Refuse another version."""
        from crusoe.rules import cluster

        if not any(change.property == "version" for change in changes):
            return None
        found = cluster.unchanged_version("version", state.get("version"), news.get("version"))
        told = f"{found[0].problem}. {found[0].fix}." if found else "its version can't be changed in place."
        return f"Kubernetes cluster {news.get('name')}: {told}"

    def planned(self, inputs: Values) -> Values:
        """Tell the generation, which the version tells."""
        state = super().planned(inputs)
        generation = generation_of(inputs.get("version"))
        if generation == "v1":
            state.pop("routingMode", None)
        return {**state, "generation": generation or UNKNOWN}

    # The API

    def body(self, run: Run, inputs: Values) -> JsonObject:
        """Return the create request; what is unset is left out."""
        del run
        simple = {
            "name": "name",
            "location": "location",
            "version": "version",
            "subnetId": "subnet_id",
            "clusterCidr": "cluster_cidr",
            "serviceClusterIpRange": "service_cluster_ip_range",
            "nodeCidrMaskSize": "node_cidr_mask_size",
            "routingMode": "routing_mode",
            **_EXTRA_ARGS,
        }
        body: JsonObject = {key: inputs[name] for name, key in simple.items() if inputs.get(name) not in (None, {})}
        if inputs.get("private") is True:
            body["private"] = True
        if inputs.get("addOns") and generation_of(inputs["version"]) != "v2":
            body["add_ons"] = inputs["addOns"]
        oidc = inputs.get("oidc")
        if isinstance(oidc, dict):
            fields = {key: oidc[name] for name, key in _OIDC.items() if oidc.get(name) is not None}
            body["auth_config"] = {"oidc": {"username_claim": "sub", **fields}}
        return body

    def get(self, run: Run, object_id: str) -> JsonObject | None:
        """GET a cluster; a v2 cluster's add-ons are a collection of their own."""
        fields = super().get(run, object_id)
        if fields is not None and generation_of(text(fields, "version")) == "v2":
            try:
                fields = {**fields, **_add_ons(run, object_id)}
            except NotFound:
                return fields
        return fields

    def actual(self, run: Run, fields: JsonObject, asked: Values) -> Values:
        """Return what the API tells; the extra arguments and the routing mode only where it does."""
        version = text(fields, "version")
        wanted = asked.get("addOns")
        named = wanted if isinstance(wanted, list) else []
        core = [each for each in texts(fields, "core_add_ons") if each in named]
        told: Values = {
            "name": text(fields, "name"),
            "location": text(fields, "location"),
            "version": version,
            "subnetId": text(fields, "subnet_id"),
            "private": fields.get("private") is True,
            "projectId": text(fields, "project_id") or run.client.project_id,
            "dnsName": text(fields, "dns_name") or "",
            "generation": generation_of(version),
        }
        if "add_ons" in fields:
            told["addOns"] = cast("Value", [*texts(fields, "add_ons"), *core])
        optional = {
            "clusterCidr": "cluster_cidr",
            "serviceClusterIpRange": "service_cluster_ip_range",
            "nodeCidrMaskSize": "node_cidr_mask_size",
            "routingMode": "routing_mode",
            **_EXTRA_ARGS,
        }
        for name, key in optional.items():
            if fields.get(key) not in (None, ""):
                told[name] = cast("Value", fields[key])
        return told

    def settle(
        self, run: Run, object_id: str, inputs: Values, fields: JsonObject, state: Values
    ) -> tuple[JsonObject, Values]:
        """Wait until the cluster runs, its add-ons are ready and its API answers; see to the kubeconfig."""
        run.session.forget_cluster(object_id)
        if "RUNNING" not in (text(fields, "state") or "").upper():
            fields = self._running(run, object_id, inputs)
        if generation_of(text(fields, "version")) == "v2":
            self._install(run, object_id, inputs)
            fields = self.get(run, object_id) or fields
        config = state.get("kubeconfig")
        if not isinstance(config, str) or kubeconfig.due(config, run.session.clock.now()):
            run.progress("fetching the kubeconfig")
            config = kubeconfig.fetch(run.client, object_id)
        self._answering(run, inputs, config)
        return fields, {"kubeconfig": config}

    def _running(self, run: Run, object_id: str, inputs: Values) -> JsonObject:
        seen: list[str] = []

        def look() -> JsonObject | None:
            now = self.get(run, object_id)
            state = (text(now, "state") or "") if now is not None else "gone"
            seen[:] = [state]
            if now is None or "FAIL" in state.upper() or "ERROR" in state.upper():
                raise RefusalError(f"Kubernetes cluster {inputs.get('name')} ({object_id}) is {state}, not running.")
            run.progress(f"Kubernetes cluster {inputs.get('name')} is {state}")
            return now if "RUNNING" in state.upper() else None

        found = run.until(look)
        if found is None:
            raise RefusalError(
                f"Kubernetes cluster {inputs.get('name')} ({object_id}) is still {seen[0]} after {run.seconds:.0f} s."
            )
        return found

    def _answering(self, run: Run, inputs: Values, config: str) -> None:
        """Wait until the API server answers."""
        private = inputs.get("private") is True
        bound = PRIVATE_SECONDS if private else run.left
        start = run.now
        why: list[str] = []

        def look() -> bool | None:
            rest = bound - (run.now - start)
            fault = kubeconfig.answers(config, max(0.5, min(kubeconfig.ANSWER_SECONDS, rest)), run.session.cancel)
            if fault is None:
                return True
            why[:] = [fault]
            waited = run.now - start
            run.progress(f"waiting for the API of {inputs.get('name')}: {fault} ({waited:.0f} s)")
            return None

        if run.until(look, bound):
            return
        address = kubeconfig.server(config)
        if private:
            raise RefusalError(
                f"Kubernetes cluster {inputs.get('name')} is private and its API at {address} can't be reached from"
                f" here ({why[0]}): run `pulumi up` from a machine inside its VPC network, or through a VPN into it."
            )
        raise RefusalError(
            f"Kubernetes cluster {inputs.get('name')} runs, but its API at {address} does not answer after"
            f" {run.now - start:.0f} s ({why[0]})."
        )

    # Update

    def patch(self, names: Set[str], state: Values, news: Values) -> JsonObject:
        """Return the extra arguments that changed; an empty map clears."""
        del state
        return {key: news.get(name) or {} for name, key in _EXTRA_ARGS.items() if name in names}

    def apply(self, run: Run, object_id: str, names: Set[str], state: Values, news: Values) -> None:
        """Change extra arguments, and on CMK v2 remove add-ons; new ones are installed while settling."""
        super().apply(run, object_id, names, state, news)
        if any(name in names for name in _EXTRA_ARGS):
            run.warn("Extra arguments take effect when the control plane is rotated next; ask Crusoe's support for it.")
        if "addOns" not in names:
            return
        wanted = news.get("addOns")
        kept = wanted if isinstance(wanted, list) else []
        for add_on in texts(_add_ons(run, object_id), "add_ons"):
            if add_on in kept:
                continue
            run.progress(f"removing add-on {add_on}")
            try:
                run.client.delete(f"{self.collection}/{object_id}/addons/{add_on}")
            except NotFound:
                continue

    def _install(self, run: Run, object_id: str, inputs: Values) -> None:
        """Install what is missing of the asked-for add-ons and wait until all of them are ready."""
        wanted = inputs.get("addOns")
        names = [str(each) for each in wanted] if isinstance(wanted, list) else []
        if not names:
            return
        present = _rows(run, object_id)
        missing = [name for name in names if not text(present.get(name, {}), "version")]
        if missing:
            run.progress(f"installing add-ons {', '.join(missing)}")
            addons: JsonObject = {"addons": [{"addon_type": name} for name in missing]}
            run.client.post(f"{self.collection}/{object_id}/addons", addons, harmless=True)
        waiting: list[str] = []

        def look() -> bool | None:
            rows = _rows(run, object_id)
            waiting[:] = [name for name in names if rows.get(name, {}).get("ready") is not True]
            if waiting:
                run.progress(f"waiting for add-ons {', '.join(waiting)}")
            return None if waiting else True

        if not run.until(look, ADD_ON_SECONDS):
            raise RefusalError(
                f"The add-ons {', '.join(waiting)} of Kubernetes cluster {inputs.get('name')} are not ready after"
                f" {ADD_ON_SECONDS:.0f} s; look at their status in the console."
            )

    # Read

    def imported_outputs(self, run: Run, object_id: str, fields: JsonObject) -> Values:
        """Fetch a kubeconfig for an imported cluster."""
        del fields
        return {"kubeconfig": kubeconfig.fetch(run.client, object_id)}

    def remove(self, run: Run, object_id: str) -> None:
        """Delete the cluster, and the load balancers that it leaves behind."""
        from crusoe.provider import load_balancers

        super().remove(run, object_id)
        run.session.forget_cluster(object_id)
        load_balancers.remove_left(run, object_id)


def _rows(run: Run, cluster_id: str) -> dict[str, JsonObject]:
    """Return a v2 cluster's add-ons by name."""
    rows = run.client.list(f"kubernetes/clusters/{cluster_id}/addons", key="addons")
    return {name: row for row in rows if (name := text(row, "addon_type"))}


def _add_ons(run: Run, cluster_id: str) -> JsonObject:
    """Return a v2 cluster's wanted add-ons: those that were chosen, and those that every cluster has."""
    wanted = {name: row for name, row in _rows(run, cluster_id).items() if text(row, "version")}
    return {
        "add_ons": [name for name, row in wanted.items() if row.get("category") != "core"],
        "core_add_ons": [name for name, row in wanted.items() if row.get("category") == "core"],
    }


KINDS = (KubernetesCluster(),)
