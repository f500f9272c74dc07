"""Clusters: generations, what can't change in place, add-ons, and when a cluster is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crusoe.provider import kubeconfig
from crusoe.provider.clusters import KubernetesCluster, same_version
from crusoe.provider.faults import PartlyDoneError
from crusoe.provider.shapes import Change
from crusoe.provider.values import UNKNOWN, Value, Values
from tests.unit.provider.support import Bench, FakeApi, always, answer, values
from tests.unit.provider.test_kubeconfig import certificate, config

CLUSTERS = "kubernetes/clusters"
V1, V2 = "1.33.4-cmk.43", "1.35.5"
INPUTS = values(name="c", location="here", version=V1)
OIDC = {"issuerUrl": "https://login.example.com", "clientId": "k8s", "groupsClaim": "groups"}
EXTRA = {
    "apiserverExtraArgs": "apiserver_extra_args",
    "schedulerExtraArgs": "scheduler_extra_args",
    "controllerManagerExtraArgs": "controller_manager_extra_args",
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose clusters run and answer."""
    bench = Bench()
    versions = [V1, V2]
    bench.api.answers["kubernetes/versions"] = {
        "kubernetes_cluster_versions": [{"cluster_version_name": name} for name in versions]
    }

    def fetch(_client: object, cluster_id: str) -> str:
        return f"kubeconfig of {cluster_id}"

    monkeypatch.setattr(kubeconfig, "fetch", fetch)
    monkeypatch.setattr(kubeconfig, "answers", always(None))
    return bench


def running(api: FakeApi, _request: Any, work: Any) -> Any:
    body = work()
    for fields in api.objects[CLUSTERS].values():
        fields |= {"state": "STATE_RUNNING", "dns_name": "c.example", "project_id": "p", "subnet_id": "default"}
        fields.setdefault("add_ons", [])
    return body


def create(bench: Bench, inputs: Values = INPUTS) -> tuple[str, Values]:
    bench.api.fault("POST", rf"{CLUSTERS}$", running)
    return KubernetesCluster().create(bench.run(), inputs)


def changed(old: Values, new: Values, **state: Value) -> dict[str, bool]:
    kind = KubernetesCluster()
    recorded = {**kind.state_of(old, {}), **state}
    return {one.path: one.replaces for one in kind.differences(old, recorded, new)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(V1, V1, True), ("1.33.4", V1, True), (V1, "1.33.4-cmk.73", False), ("1.33.4", "1.33.5", False), (V2, V1, False)],
)
def test_versions_by_meaning(one: str, other: str, same: bool) -> None:
    assert same_version(one, other) is same
    assert same_version(other, one) is same


class TestCheck:
    def faults(self, bench: Bench, inputs: Values, olds: Values | None = None) -> dict[str, str]:
        return {one.path: one.reason for one in KubernetesCluster().check(bench.session, olds or {}, inputs)}

    def test_all_at_once(self, bench: Bench) -> None:
        found = self.faults(
            bench,
            {
                **INPUTS,
                "version": "latest",
                "clusterCidr": "10.0.0.1/8",
                "oidc": {"issuerUrl": "http://x", "clientId": "k"},
                "privat": True,
            },
        )
        assert set(found) == {"version", "clusterCidr", "oidc.issuerUrl", "privat"}

    def test_a_version_that_is_not_offered_is_refused_for_a_new_cluster_only(self, bench: Bench) -> None:
        other: dict[str, Any] = {**INPUTS, "version": "1.33.4-cmk.99"}
        assert "is not offered" in self.faults(bench, other)["version"]
        assert V1 in self.faults(bench, other)["version"]
        assert not self.faults(bench, other, other)

    def test_the_newest_of_the_minor_is_suggested(self, bench: Bench) -> None:
        offered = ("1.33.4-cmk.9", "1.33.10-cmk.2", "1.33.4-cmk.43", "1.34.1-cmk.1", V2)
        rows = [{"cluster_version_name": name} for name in offered]
        bench.api.answers["kubernetes/versions"] = {"kubernetes_cluster_versions": rows}
        told = self.faults(bench, {**INPUTS, "version": "1.33.4-cmk.8"})["version"]
        assert "Did you mean '1.33.10-cmk.2'?" in told

    def test_a_setting_of_the_other_generation(self, bench: Bench) -> None:
        assert set(self.faults(bench, {**INPUTS, "routingMode": "native"})) == {"routingMode"}
        assert not self.faults(bench, {**INPUTS, "version": V2, "routingMode": "native"})


class TestDiff:
    def test_the_version_is_refused_with_the_way_out(self) -> None:
        kind = KubernetesCluster()
        news: dict[str, Any] = {**INPUTS, "version": "1.33.4-cmk.73"}
        changes = kind.differences(INPUTS, INPUTS, news)
        told = kind.refusal(INPUTS, news, changes) or ""
        assert "can't change that to 1.33.4-cmk.73 in place" in told
        assert "ask Crusoe for the upgrade" in told
        assert not any(change.replaces for change in changes)
        assert kind.refusal(INPUTS, INPUTS, []) is None

    @pytest.mark.parametrize("name", ["name", "location", "subnetId", "clusterCidr", "serviceClusterIpRange"])
    def test_what_replaces(self, name: str) -> None:
        assert changed({**INPUTS, name: "10.0.0.0/8"}, {**INPUTS, name: "11.0.0.0/8"}) == {name: True}

    def test_oidc_replaces_and_is_taken_after_an_import(self) -> None:
        old: dict[str, Any] = {**INPUTS, "oidc": OIDC}
        new: dict[str, Any] = {**INPUTS, "oidc": {**OIDC, "clientId": "other"}}
        assert changed(old, new) == {"oidc.clientId": True}
        assert not changed(INPUTS, new, __unread=["oidc"])

    def test_add_ons_replace_on_v1_and_change_in_place_on_v2(self) -> None:
        old: dict[str, Any] = {**INPUTS, "addOns": ["a", "b"]}
        new: dict[str, Any] = {**INPUTS, "addOns": ["a"]}
        assert changed(old, new, generation="v1") == {"addOns": True}
        assert changed(old, new, generation="v2") == {"addOns": False}
        assert not changed(old, {**INPUTS, "addOns": ["b", "a"]}, generation="v1")

    def test_extra_arguments_change_in_place(self) -> None:
        old: dict[str, Any] = {**INPUTS, "apiserverExtraArgs": {"v": "1"}}
        new: dict[str, Any] = {**INPUTS, "apiserverExtraArgs": {"v": "2"}}
        assert changed(old, new) == {"apiserverExtraArgs.v": False}

    def test_a_kubeconfig_is_renewed_by_an_up_near_its_end(self) -> None:
        now = datetime.now(UTC)
        kind = KubernetesCluster()
        fresh = config(certificate(now - timedelta(days=1), now + timedelta(days=364)))
        old = config(certificate(now - timedelta(days=364), now + timedelta(days=1)))
        assert kind.upkeep({"kubeconfig": fresh}) == []
        assert [(one.path, one.change) for one in kind.upkeep({"kubeconfig": old})] == [("kubeconfig", Change.UPDATE)]
        state: Values = {**INPUTS, "kubeconfig": old}
        assert kind.planned_update(state, INPUTS, kind.upkeep(state))["kubeconfig"] == old
        assert not kind.differences(INPUTS, state, INPUTS)


class TestPreview:
    def test_an_update_of_a_half_made_cluster_leaves_open_what_is_not_recorded(self) -> None:
        kind = KubernetesCluster()
        after = kind.planned_update(INPUTS, INPUTS, kind.upkeep(INPUTS))
        assert after["kubeconfig"] is UNKNOWN
        assert after["dnsName"] is UNKNOWN
        assert kind.planned_update({**INPUTS, "dnsName": "x"}, INPUTS, [])["dnsName"] == "x"

    def test_what_is_known_of_a_new_cluster(self) -> None:
        planned = KubernetesCluster().planned(INPUTS)
        assert planned["generation"] == "v1"
        assert planned["kubeconfig"] is UNKNOWN
        assert planned["subnetId"] is UNKNOWN
        assert "routingMode" not in planned
        assert KubernetesCluster().planned({**INPUTS, "version": UNKNOWN})["generation"] is UNKNOWN


class TestCreate:
    def test_requests_of_both_generations(self, bench: Bench) -> None:
        kind, run = KubernetesCluster(), bench.run()
        every: dict[str, Any] = {
            **INPUTS,
            "subnetId": "s",
            "clusterCidr": "10.1.0.0/16",
            "serviceClusterIpRange": "10.2.0.0/16",
            "nodeCidrMaskSize": 24,
            "addOns": ["a"],
            "private": True,
            "oidc": OIDC,
            "apiserverExtraArgs": {"v": "1"},
            "schedulerExtraArgs": {},
            "adoptExisting": True,
        }
        assert kind.body(run, every) == {
            "name": "c",
            "location": "here",
            "version": V1,
            "subnet_id": "s",
            "cluster_cidr": "10.1.0.0/16",
            "service_cluster_ip_range": "10.2.0.0/16",
            "node_cidr_mask_size": 24,
            "add_ons": ["a"],
            "private": True,
            "apiserver_extra_args": {"v": "1"},
            "auth_config": {
                "oidc": {
                    "issuer_url": "https://login.example.com",
                    "client_id": "k8s",
                    "username_claim": "sub",
                    "groups_claim": "groups",
                }
            },
        }
        assert kind.body(run, INPUTS) == {"name": "c", "location": "here", "version": V1}
        v2 = kind.body(run, {**every, "version": V2, "routingMode": "native"})
        assert v2["routing_mode"] == "native"
        assert "add_ons" not in v2

    def test_it_is_done_when_its_api_answers(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        told = ["connection refused", "connection refused", None]

        def answers(*_: object) -> str | None:
            return told.pop(0)

        monkeypatch.setattr(kubeconfig, "answers", answers)
        object_id, state = create(bench)
        assert state["kubeconfig"] == f"kubeconfig of {object_id}"
        assert state["generation"] == "v1"
        assert not told
        assert KubernetesCluster().secrets == {"kubeconfig"}

    def test_an_api_that_never_answers_leaves_a_recorded_cluster(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kubeconfig, "answers", always("no answer"))
        with pytest.raises(PartlyDoneError, match=r"does not answer after \d+ s \(no answer\)"):
            create(bench)

    def test_a_private_cluster_says_from_where_within_15_s(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kubeconfig, "answers", always("no answer"))
        with pytest.raises(PartlyDoneError, match="from a machine inside its VPC network"):
            create(bench, {**INPUTS, "private": True})
        assert sum(bench.clock.waits) <= 15

    def test_a_cluster_still_coming_up_is_waited_for(self, bench: Bench) -> None:
        object_id, state = create(bench)
        fields = bench.api.objects[CLUSTERS][object_id]
        fields["state"] = "STATE_PROVISIONING"
        bench.clock.on_sleep = lambda: fields.update(state="STATE_RUNNING")
        KubernetesCluster().update(bench.run(), object_id, state, INPUTS, [])

    def test_a_failed_cluster_is_told(self, bench: Bench) -> None:
        object_id, state = create(bench)
        bench.api.objects[CLUSTERS][object_id]["state"] = "STATE_FAILED"
        with pytest.raises(PartlyDoneError, match="is STATE_FAILED, not running"):
            KubernetesCluster().update(bench.run(), object_id, state, INPUTS, [])


class TestKubeconfig:
    def test_it_is_kept_over_refreshes_and_updates(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        object_id, state = create(bench)
        monkeypatch.setattr(kubeconfig, "fetch", None)
        kind = KubernetesCluster()
        found = kind.read(bench.run(), object_id, INPUTS, state)
        assert found is not None
        assert found.state["kubeconfig"] == state["kubeconfig"]
        news: dict[str, Any] = {**INPUTS, "apiserverExtraArgs": {"v": "1"}}
        after = kind.update(bench.run(), object_id, state, news, kind.differences(INPUTS, state, news))
        assert after["kubeconfig"] == state["kubeconfig"]

    def test_it_is_renewed_when_due(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        object_id, state = create(bench)
        now = bench.clock.now()
        old = config(certificate(now - timedelta(days=364), now + timedelta(days=1)))
        monkeypatch.setattr(kubeconfig, "fetch", always("new"))
        kind = KubernetesCluster()
        after = kind.update(
            bench.run(), object_id, {**state, "kubeconfig": old}, INPUTS, kind.upkeep({"kubeconfig": old})
        )
        assert after["kubeconfig"] == "new"
        assert not bench.api.sent("PATCH")

    def test_an_import_fetches_one(self, bench: Bench) -> None:
        object_id, _ = create(bench)
        found = KubernetesCluster().read(bench.run(), object_id, {}, {})
        assert found is not None
        assert found.state["kubeconfig"] == f"kubeconfig of {object_id}"
        assert "kubeconfig" not in found.inputs


class TestUpdate:
    @pytest.mark.parametrize("name", sorted(EXTRA))
    def test_only_the_map_that_changed_is_sent_and_an_empty_one_clears(self, name: str) -> None:
        kind = KubernetesCluster()
        news: dict[str, Any] = {**INPUTS, **{one: {"v": "1"} for one in EXTRA}}
        assert kind.patch({name}, {}, news) == {EXTRA[name]: {"v": "1"}}
        assert kind.patch({name}, {}, INPUTS) == {EXTRA[name]: {}}

    def test_a_v2_cluster_gets_and_loses_add_ons_in_place(self, bench: Bench) -> None:
        rows: dict[str, dict[str, object]] = {
            "csi": {"addon_type": "csi", "category": "core", "version": "1", "ready": True},
            "old": {"addon_type": "old", "category": "optional", "version": "1", "ready": True},
        }

        def list_them(_api: Any, _request: Any, _work: Any) -> Any:
            return answer({"addons": list(rows.values())})

        def install(api: FakeApi, _request: Any, _work: Any) -> Any:
            for one in (api.requests[-1][2] or {})["addons"]:
                rows[one["addon_type"]] = {**one, "category": "optional", "version": "1", "ready": True}
            return answer({"addons": []})

        def remove(_api: Any, request: Any, _work: Any) -> Any:
            del rows[request.url.path.rpartition("/")[2]]
            return answer({})

        bench.api.fault("GET", r"/addons$", *[list_them] * 50)
        bench.api.fault("POST", r"/addons$", install)
        bench.api.fault("DELETE", r"/addons/", remove)
        inputs: dict[str, Any] = {**INPUTS, "version": V2, "addOns": ["old"]}
        object_id, state = create(bench, inputs)
        kind = KubernetesCluster()
        news: dict[str, Any] = {**inputs, "addOns": ["new", "csi"]}
        after = kind.update(bench.run(), object_id, state, news, kind.differences(inputs, state, news))
        assert set(rows) == {"csi", "new"}
        assert bench.api.sent("POST", "/addons") == [{"addons": [{"addon_type": "new"}]}]
        assert after["addOns"] == ["new", "csi"]
        found = kind.read(bench.run(), object_id, news, after)
        assert found is not None
        assert found.inputs == news
