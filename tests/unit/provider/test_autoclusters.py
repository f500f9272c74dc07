"""The AutoClusters configuration: everything explicit, and only its own overrides taken back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from crusoe.provider.autoclusters import AutoClustersConfig
from crusoe.provider.faults import RefusalError
from crusoe.provider.values import UNKNOWN, Values
from tests.unit.provider.support import Bench, FakeApi, answer, values

V1 = "1.33.4-cmk.43"
INPUTS = values(clusterId="c", remediationActions={"XID_74": "REPLACE_NODE"})
PATH = "kubernetes/clusters/c/autoclusters/config"


class Cloud(Bench):
    """A bench with a cluster and its configuration."""

    def __init__(self, version: str = V1, features: tuple[str, ...] = ("autoclusters",)) -> None:
        super().__init__()
        self.defaults = {"XID_74": "OFF", "XID_79": "REPLACE_NODE", "GPU_FELL_OFF_THE_BUS": "OFF"}
        self.overrides: dict[str, str] = {}
        self.fallback = False
        self.api.objects["kubernetes/clusters"] = {"c": {"id": "c", "name": "c", "version": version}}
        row = {"cluster_version_name": version, "supported_features": list(features)}
        self.api.answers["kubernetes/versions"] = {"kubernetes_cluster_versions": [row]}
        self.api.fault("GET", PATH, *[self._get] * 99)
        self.api.fault("PATCH", PATH, *[self._patch] * 99)

    def _get(self, *_: Any) -> httpx.Response:
        rows: list[dict[str, str]] = []
        for name, default in self.defaults.items():
            row = {"issue_name": name, "default_action": default}
            if name in self.overrides:
                row["user_override"] = self.overrides[name]
            rows.append({**row, "effective_action": self.overrides.get(name, default)})
        return answer({"remediation_configs": rows, "fallback_to_project_reservations": self.fallback})

    def _patch(self, api: FakeApi, *_: Any) -> httpx.Response:
        body = api.requests[-1][2] or {}
        for row in body.get("set_remediation_overrides", []):
            self.overrides[row["issue_name"]] = row["action"]
        for name in body.get("remove_remediation_overrides", []):
            del self.overrides[name]
        self.fallback = body.get("fallback_to_project_reservations", self.fallback)
        return self._get()

    def create(self, inputs: Values = INPUTS) -> Values:
        object_id, state = AutoClustersConfig().create(self.run(), inputs)
        assert object_id == "c"
        return state

    def update(self, old: Values, state: Values, news: Values) -> Values:
        kind = AutoClustersConfig()
        return kind.update(self.run(), "c", state, news, kind.differences(old, state, news))


def changed(old: Values, state: Values, news: Values) -> set[str]:
    return {one.path for one in AutoClustersConfig().differences(old, state, news)}


def test_every_issue_is_set_explicitly() -> None:
    cloud = Cloud()
    state = cloud.create()
    assert cloud.overrides == {"XID_74": "REPLACE_NODE", "XID_79": "OFF", "GPU_FELL_OFF_THE_BUS": "OFF"}
    assert state["actions"] == cloud.overrides
    assert state["overridesSet"] == sorted(cloud.overrides)
    assert "fallback_to_project_reservations" not in (cloud.api.sent("PATCH")[0] or {})


def test_an_override_that_is_right_already_is_not_ours() -> None:
    cloud = Cloud()
    cloud.overrides = {"XID_79": "OFF"}
    assert cloud.create()["overridesSet"] == ["GPU_FELL_OFF_THE_BUS", "XID_74"]


@pytest.mark.parametrize("fallback", [True, False])
def test_the_fallback_is_sent_when_it_is_managed(fallback: bool) -> None:
    cloud = Cloud()
    cloud.fallback = not fallback
    cloud.create({**INPUTS, "fallbackToProjectReservations": fallback})
    assert cloud.fallback is fallback


def test_the_fallback_that_nobody_manages_is_no_drift() -> None:
    cloud = Cloud()
    state = cloud.create()
    cloud.fallback = True
    found = AutoClustersConfig().read(cloud.run(), "c", INPUTS, state)
    assert found is not None
    assert found.inputs == INPUTS
    assert not changed(found.inputs, found.state, INPUTS)
    cloud.update(found.inputs, found.state, {**INPUTS, "remediationActions": {}})
    assert cloud.fallback is True


def test_off_means_the_same_as_left_out() -> None:
    cloud = Cloud()
    state = cloud.create({**INPUTS, "remediationActions": {"XID_74": "REPLACE_NODE", "XID_79": "OFF"}})
    assert not changed(INPUTS, state, INPUTS)


def test_an_issue_that_appears_later_is_drift_and_set_off() -> None:
    cloud = Cloud()
    state = cloud.create()
    cloud.defaults["XID_999"] = "REPLACE_NODE"
    found = AutoClustersConfig().read(cloud.run(), "c", INPUTS, state)
    assert found is not None
    assert found.inputs["remediationActions"] == {"XID_74": "REPLACE_NODE", "XID_999": "REPLACE_NODE"}
    assert changed(found.inputs, found.state, INPUTS) == {"remediationActions.XID_999"}
    after = cloud.update(found.inputs, found.state, INPUTS)
    assert cloud.overrides["XID_999"] == "OFF"
    assert cloud.api.sent("PATCH")[-1] == {"set_remediation_overrides": [{"issue_name": "XID_999", "action": "OFF"}]}
    assert "XID_999" in str(after["overridesSet"])


def test_one_more_action_is_one_difference_and_one_override() -> None:
    cloud = Cloud()
    state = cloud.create()
    news: dict[str, Any] = {**INPUTS, "remediationActions": {"XID_74": "REPLACE_NODE", "XID_79": "REPLACE_NODE"}}
    assert changed(INPUTS, state, news) == {"remediationActions.XID_79"}
    planned = AutoClustersConfig().planned_update(state, news, [])
    assert planned["actions"] == {"XID_74": "REPLACE_NODE", "XID_79": "REPLACE_NODE", "GPU_FELL_OFF_THE_BUS": "OFF"}
    cloud.update(INPUTS, state, news)
    assert cloud.api.sent("PATCH")[-1] == {
        "set_remediation_overrides": [{"issue_name": "XID_79", "action": "REPLACE_NODE"}]
    }


class TestDelete:
    def test_only_what_it_set_is_taken_back(self) -> None:
        cloud = Cloud()
        cloud.overrides = {"GPU_FELL_OFF_THE_BUS": "OFF"}
        state = cloud.create()
        cloud.overrides["XID_79"] = "REPLACE_NODE"
        AutoClustersConfig().delete(cloud.run(), "c", state)
        assert cloud.overrides == {"GPU_FELL_OFF_THE_BUS": "OFF", "XID_79": "REPLACE_NODE"}

    def test_a_cluster_that_is_gone_is_fine(self) -> None:
        bench = Bench()
        AutoClustersConfig().delete(bench.run(), "gone", values(overridesSet=["XID_74"], actions={"XID_74": "OFF"}))


class TestRefusals:
    def faults(self, cloud: Cloud, inputs: Values) -> dict[str, str]:
        return {one.path: one.reason for one in AutoClustersConfig().check(cloud.session, {}, inputs)}

    def test_an_unknown_issue_lists_the_known_ones(self) -> None:
        told = self.faults(Cloud(), {**INPUTS, "remediationActions": {"XID_47": "REPLACE_NODE"}})
        # The engine shows the value at the path, and finds one at the property's own only.
        assert set(told) == {"remediationActions"}
        assert "'XID_47' is not an issue" in told["remediationActions"]
        for name in ("XID_74", "XID_79", "GPU_FELL_OFF_THE_BUS"):
            assert name in told["remediationActions"]

    def test_and_the_create_refuses_it_where_a_preview_could_not(self) -> None:
        cloud = Cloud()
        unknown: dict[str, Any] = {**INPUTS, "remediationActions": {"XID_47": "REPLACE_NODE"}}
        assert not self.faults(cloud, {**unknown, "clusterId": UNKNOWN})
        with pytest.raises(RefusalError, match="XID_47"):
            cloud.create(unknown)
        assert not cloud.overrides

    def test_another_action_is_a_fault(self) -> None:
        told = self.faults(Cloud(), {**INPUTS, "remediationActions": {"XID_74": "RESET", "XID_79": False}})
        assert set(told) == {"remediationActions.XID_74", "remediationActions.XID_79"}

    def test_cmk_v2_is_refused_by_name(self) -> None:
        assert "CMK v1" in self.faults(Cloud("1.35.5"), INPUTS)["clusterId"]
        with pytest.raises(RefusalError, match="consentMode"):
            Cloud("1.35.5").create()

    def test_a_version_below_the_minimum_names_it(self) -> None:
        told = self.faults(Cloud("1.33.4-cmk.13", features=()), INPUTS)["clusterId"]
        assert "1.33.4-cmk.20" in told

    def test_a_version_without_the_feature_is_refused_whatever_its_number(self) -> None:
        assert "without the feature" in self.faults(Cloud("1.33.4-cmk.99", features=("oidc",)), INPUTS)["clusterId"]

    def test_a_cluster_that_is_not_there(self) -> None:
        assert "there is no Kubernetes cluster x" in self.faults(Cloud(), {**INPUTS, "clusterId": "x"})["clusterId"]

    def test_without_news_nothing_is_asked(self) -> None:
        cloud = Cloud()
        AutoClustersConfig().check(cloud.session, INPUTS, INPUTS)
        assert not cloud.api.requests


class TestImport:
    def test_by_the_clusters_id(self) -> None:
        cloud = Cloud()
        cloud.overrides = {"XID_79": "OFF", "XID_74": "REPLACE_NODE"}
        found = AutoClustersConfig().read(cloud.run(), "c", {}, {})
        assert found is not None
        assert found.inputs == {**INPUTS, "fallbackToProjectReservations": False}
        assert found.state["overridesSet"] == []
        assert not changed(found.inputs, found.state, INPUTS)

    def test_not_found_although_the_cluster_is_there_forgets_nothing(self) -> None:
        cloud = Cloud()
        state = cloud.create()
        cloud.api.faults.clear()
        with pytest.raises(RefusalError, match=r"not found.*cluster c is there, so it stays"):
            AutoClustersConfig().read(cloud.run(), "c", INPUTS, state)
        with pytest.raises(RefusalError, match=r"not found.*cluster c is there, so it stays"):
            AutoClustersConfig().delete(cloud.run(), "c", state)

    def test_gone_with_its_cluster(self) -> None:
        assert AutoClustersConfig().read(Bench().run(), "gone", INPUTS, {"actions": {}}) is None
