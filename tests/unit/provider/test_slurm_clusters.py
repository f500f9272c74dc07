"""Clusters of Managed Slurm: done when they run and are found, and never replaced without consent."""

from __future__ import annotations

from typing import Any

import pytest

from crusoe.provider import kubeconfig
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.slurm_clusters import KUBERNETES_CLUSTERS, SlurmCluster
from crusoe.provider.slurm_states import issues_of
from crusoe.provider.values import UNKNOWN, Value, Values
from tests.unit.provider.support import Bench, FakeApi, always, answer, values

CLUSTERS = "slurm/clusters"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHYzZmFrZWtleWZvcnRlc3RzMDEyMzQ1Njc4OTAx ada@example.com"
INPUTS = values(name="lab", location="here", rootSshPublicKeys=[KEY])
DEFAULTS = {"login_node_type": "c1a.8x", "login_replicas": 1, "home_volume_size": "10Ti", "subnet_id": "default"}
ISSUE = {"code": "quota_exceeded", "message": "no quota for c1a."}


class Cloud(Bench):
    """A bench whose Slurm clusters go through `states`, the last one for good, on CMK clusters of their names."""

    def __init__(self, *states: str, issues: list[dict[str, str]] | None = None, behind: int = 1) -> None:
        super().__init__()
        self.states = list(states or ("RUNNING",))
        self.issues, self.behind = issues or [], behind
        self.address: str = "203.0.113.7"
        self.api.fault("POST", rf"{CLUSTERS}$", *[self._make] * 3)
        self.clock.on_sleep = self._step

    def _make(self, api: FakeApi, _request: Any, work: Any) -> Any:
        made = work()
        name = next(reversed(api.objects[CLUSTERS].values()))["name"]
        for _ in range(self.behind):
            api.put(KUBERNETES_CLUSTERS, name=name, location="here", state="STATE_RUNNING")
        self._step(first=True)
        return made

    def _step(self, *, first: bool = False) -> None:
        if len(self.states) > 1 and not first:
            self.states.pop(0)
        for fields in self.api.objects.get(CLUSTERS, {}).values():
            fields |= {"state": self.states[0], "version": "26.05-cmk.1", "issues": self.issues, **DEFAULTS, **fields}
            fields["state"] = self.states[0]
            if self.states[0] == "RUNNING":
                fields["login_node_endpoint"] = self.address

    def create(self, inputs: Values = INPUTS) -> tuple[str, Values]:
        return SlurmCluster().create(self.run("lab"), inputs)


@pytest.fixture(autouse=True)
def kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMK clusters that answer."""

    def fetch(_client: object, cluster_id: str) -> str:
        return f"kubeconfig of {cluster_id}"

    monkeypatch.setattr(kubeconfig, "fetch", fetch)
    monkeypatch.setattr(kubeconfig, "answers", always(None))


def refused(state: Values, news: Values) -> str | None:
    kind = SlurmCluster()
    return kind.refusal(state, news, kind.differences(INPUTS, state, news))


class TestCheck:
    def faults(self, **changes: Any) -> set[str]:
        cloud = Cloud()
        cloud.api.answers["compute/vms/types"] = {"items": [{"product_name": "c1a.8x"}, {"product_name": "h100.8x"}]}
        cloud.api.answers["/locations"] = {"items": ["here", "there"]}
        return {one.path for one in SlurmCluster().check(cloud.session, {}, {**INPUTS, **changes})}

    def test_rules_and_the_api(self) -> None:
        assert self.faults() == set()
        assert self.faults(homeVolumeSize="", loginReplicas=2, loginNodeType="c1a.8x") == set()
        assert self.faults(name="x" * 36, rootSshPublicKeys=[], homeVolumeSize="5TiB", loginReplicas=0) == {
            "name",
            "rootSshPublicKeys",
            "homeVolumeSize",
            "loginReplicas",
        }
        assert self.faults(loginNodeType="c1a.9x", location="nowhere") == {"loginNodeType", "location"}
        assert self.faults(internalConfig={}) == {"internalConfig"}

    def test_what_is_unknown_is_not_wrong(self) -> None:
        assert self.faults(subnetId=UNKNOWN, rootSshPublicKeys=UNKNOWN, homeVolumeSize=UNKNOWN) == set()


class TestCreate:
    def test_only_what_is_given_is_sent(self) -> None:
        cloud = Cloud()
        cloud.create()
        assert cloud.api.sent("POST", CLUSTERS) == [{"name": "lab", "location": "here", "root_ssh_pub_keys": [KEY]}]

    def test_every_field(self) -> None:
        cloud = Cloud()
        cloud.create({**INPUTS, "subnetId": "s", "loginNodeType": "c1a.4x", "loginReplicas": 2, "homeVolumeSize": ""})
        (sent,) = cloud.api.sent("POST", CLUSTERS)
        assert sent == {
            "name": "lab",
            "location": "here",
            "root_ssh_pub_keys": [KEY],
            "subnet_id": "s",
            "login_node_type": "c1a.4x",
            "login_replicas": 2,
            "home_volume_size": "",
        }

    def test_done_when_it_runs_and_its_kubernetes_cluster_is_found(self) -> None:
        cloud = Cloud("PROVISIONING", "PROVISIONING", "UNHEALTHY", "RUNNING")
        _, state = cloud.create()
        (cluster_id,) = cloud.api.objects[KUBERNETES_CLUSTERS]
        assert state["kubernetesClusterId"] == cluster_id
        assert state["kubeconfig"] == f"kubeconfig of {cluster_id}"
        assert (state["loginHost"], state["slurmVersion"]) == ("203.0.113.7", "26.05-cmk.1")
        assert any("is UNHEALTHY" in told for told in cloud.engine.progressed)
        assert "open to every address until firewallRuleSourceRanges" in cloud.engine.warnings[0]

    def test_a_failure_tells_the_issues_and_records_the_cluster(self) -> None:
        cloud = Cloud("PROVISIONING", "CREATE_FAILED", issues=[ISSUE])
        with pytest.raises(PartlyDoneError) as error:
            cloud.create()
        assert "is CREATE_FAILED. Crusoe says quota_exceeded: no quota for c1a. Put that right" in str(error.value)
        assert error.value.object_id in cloud.api.objects[CLUSTERS]

    def test_a_failed_operation_tells_the_issues_and_leaves_nothing(self) -> None:
        cloud = Cloud("CREATE_FAILED", issues=[ISSUE])
        cloud.api.failing = "create failed"

        def heal(api: FakeApi, _request: Any, work: Any) -> Any:
            api.failing = None
            return work()

        cloud.api.fault("DELETE", CLUSTERS, heal)
        with pytest.raises(RefusalError, match=r"create failed.*Crusoe says quota_exceeded: no quota for c1a"):
            cloud.create()
        assert not cloud.api.objects[CLUSTERS]

    def test_the_wait_is_bounded(self) -> None:
        cloud = Cloud("PROVISIONING", issues=[ISSUE])
        run = cloud.run("lab", seconds=300)
        with pytest.raises(PartlyDoneError, match=r"still PROVISIONING after 300 s. Crusoe says quota_exceeded"):
            SlurmCluster().create(run, INPUTS)
        assert sum(cloud.clock.waits) <= 301

    def test_a_cancel_ends_it_and_records_the_cluster(self) -> None:
        cloud = Cloud("PROVISIONING")
        step = cloud.clock.on_sleep

        def cancel() -> None:
            assert step is not None
            step()
            cloud.session.cancel.set()

        cloud.clock.on_sleep = cancel
        with pytest.raises(PartlyDoneError, match="cancelled while Slurm cluster lab"):
            cloud.create()

    def test_it_has_to_have_a_login_address(self) -> None:
        cloud = Cloud()
        cloud.address = ""
        with pytest.raises(PartlyDoneError, match="has no login address after 600 s"):
            SlurmCluster().create(cloud.run("lab", 5400), INPUTS)

    @pytest.mark.parametrize(("behind", "told"), [(0, "shows no Kubernetes cluster"), (2, "There are 2 Kubernetes")])
    def test_a_kubernetes_cluster_that_is_not_one(self, behind: int, told: str) -> None:
        with pytest.raises(PartlyDoneError, match=told) as error:
            SlurmCluster().create(Cloud(behind=behind).run("lab", 5400), INPUTS)
        assert "kubernetesClusterId" not in error.value.state

    def test_one_of_another_location_is_another(self) -> None:
        cloud = Cloud()
        other = cloud.api.put(KUBERNETES_CLUSTERS, name="lab", location="there")
        _, state = cloud.create()
        assert state["kubernetesClusterId"] != other

    def test_a_silent_kubernetes_api_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kubeconfig, "answers", always("connection refused"))
        with pytest.raises(PartlyDoneError, match=r"does not answer from here \(connection refused\)"):
            SlurmCluster().create(Cloud().run("lab", 5400), INPUTS)

    def test_one_of_its_name_is_adopted_if_it_agrees(self) -> None:
        cloud = Cloud()
        object_id, _ = cloud.create()
        assert cloud.create({**INPUTS, "adoptExisting": True})[0] == object_id
        with pytest.raises(RefusalError, match=f"pulumi import crusoe:index:SlurmCluster lab {object_id}"):
            cloud.create()
        with pytest.raises(RefusalError, match="differs in homeVolumeSize"):
            cloud.create({**INPUTS, "adoptExisting": True, "homeVolumeSize": "2Ti"})


class TestChange:
    STATE = values(**INPUTS, homeVolumeSize="10Ti", loginReplicas=1, loginHost="203.0.113.7", kubeconfig="k")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("name", "other"),
            ("location", "there"),
            ("rootSshPublicKeys", [KEY, KEY + "2"]),
            ("subnetId", "s"),
            ("loginNodeType", "c1a.16x"),
            ("loginReplicas", 2),
            ("homeVolumeSize", "20Ti"),
        ],
    )
    def test_every_field_is_refused_without_consent_and_replaces_with_it(self, name: str, value: Value) -> None:
        news: Values = {**INPUTS, name: value}
        told = refused(self.STATE, news)
        assert told is not None
        assert f"can't change {name} of a Slurm cluster" in told
        assert "destroys its shared /home, its queue" in told
        consenting: Values = {**news, "replaceOnChange": True}
        found = SlurmCluster().differences(INPUTS, self.STATE, consenting)
        assert {one.property for one in found} == {name}
        assert all(one.replaces for one in found)
        assert refused(self.STATE, consenting) is None

    def test_what_means_the_same_is_no_change(self) -> None:
        same = values(**{**INPUTS, "homeVolumeSize": "10240Gi", "rootSshPublicKeys": [KEY.replace(" ", "  ")]})
        assert SlurmCluster().differences(INPUTS, self.STATE, same) == []
        assert refused(self.STATE, {**INPUTS, "replaceOnChange": False}) is None

    def test_the_preview_says_what_a_replacement_destroys(self) -> None:
        assert "with its shared /home, its queue and every running job" in SlurmCluster().lost_by_replacing(self.STATE)

    def test_a_kubeconfig_near_its_end_is_renewed_without_a_wait_for_health(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        cloud.states[:] = ["UNHEALTHY"]
        cloud.issues = [ISSUE]
        fields = cloud.api.objects[CLUSTERS][object_id]
        fields |= {"state": "UNHEALTHY", "issues": [ISSUE]}
        kind = SlurmCluster()
        bare: Values = {name: value for name, value in state.items() if name != "kubeconfig"}
        assert refused(state, INPUTS) is None
        (due,) = kind.upkeep(bare)
        old: Values = {**state, "kubeconfig": "old"}
        after = kind.update(cloud.run("lab"), object_id, old, INPUTS, [due])
        assert after["kubeconfig"] == "old", "not due"
        assert "UNHEALTHY. Crusoe says" in cloud.engine.warnings[-1]
        assert not cloud.api.sent("PATCH")


class TestRead:
    def test_an_import_finds_everything(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        found = SlurmCluster().read(cloud.run(), object_id, {}, {})
        assert found is not None
        assert found.inputs == {
            **INPUTS,
            "loginNodeType": "c1a.8x",
            "loginReplicas": 1,
            "homeVolumeSize": "10Ti",
            "subnetId": "default",
        }
        for name in ("kubeconfig", "kubernetesClusterId", "loginHost"):
            assert found.state[name] == state[name]
        assert SlurmCluster().differences(found.inputs, found.state, INPUTS) == []

    def test_no_home_is_told_as_such_and_is_not_the_default(self) -> None:
        cloud = Cloud()
        inputs: Values = {**INPUTS, "homeVolumeSize": ""}
        object_id, state = cloud.create(inputs)
        found = SlurmCluster().read(cloud.run(), object_id, inputs, state)
        assert found is not None
        assert found.inputs == inputs
        assert refused(state, {**INPUTS, "homeVolumeSize": "10Ti"}) is not None

    def test_a_refresh_keeps_the_kubeconfig_and_sees_that_it_is_gone(self) -> None:
        cloud = Cloud()
        object_id, state = cloud.create()
        found = SlurmCluster().read(cloud.run(), object_id, INPUTS, state)
        assert found is not None
        assert (found.inputs, found.state) == (INPUTS, state)
        SlurmCluster().delete(cloud.run(), object_id, state)
        assert SlurmCluster().read(cloud.run(), object_id, INPUTS, state) is None
        SlurmCluster().delete(cloud.run(), object_id, state)


def test_answers_of_odd_forms_do_not_break_it() -> None:
    cloud = Cloud()
    issues = [None, {"code": "a"}, {}, "text", {"message": "b."}]
    fields: dict[str, Any] = {"id": "x", "name": "lab", "issues": issues, "login_replicas": None}
    assert issues_of(fields) == " Crusoe says a; b."
    assert issues_of({"issues": "many"}) == ""
    assert SlurmCluster().actual(cloud.run(), fields, INPUTS) == {"name": "lab", "location": None}
    cloud.api.fault("GET", "slurm/clusters/x", always(answer(fields)))
    assert SlurmCluster().get(cloud.run(), "x") == fields
