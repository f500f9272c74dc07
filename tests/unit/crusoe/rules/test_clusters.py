"""Versions, clusters, AutoClusters, disks."""

from __future__ import annotations

import pytest

from crusoe import catalog
from crusoe.rules import autoclusters, cluster, storage, versions
from crusoe.rules.finding import Finding

V1, V2 = "1.33.4-cmk.43", "1.35.5"
ON = {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


class TestVersions:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ("1.33.4-cmk.8", "1.33.10-cmk.2"),
            ("1.33.99", "1.33.10-cmk.2"),
            ("1.35.9", "1.35.5"),
            ("1.35.9-cmk.1", "1.35.5-cmk.0"),
            ("1.36.0", None),
            ("latest", None),
        ],
    )
    def test_the_newest_like_one(self, wanted: str, expected: str | None) -> None:
        offered = ["1.33.4-cmk.43", "1.33.10-cmk.2", "1.33.4-cmk.9", "1.35.5", "1.35.4", "1.35.5-cmk.0", "odd"]
        assert versions.newest_like(wanted, offered) == expected

    @pytest.mark.parametrize("text", ["1.33.4-cmk.43", "1.35.5", "0.0.0", "1.35.5-cmk.0"])
    def test_they_are_read_and_written_alike(self, text: str) -> None:
        assert str(versions.parse(text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "1.33",
            "v1.33.4",
            "1.33.4-cmk",
            "1.33.4-cmk.",
            "1.33.4-cmk.1x",
            "01.3.4",
            "1.33.4 ",
            "1.33.4-rc.1",
            "1.3.99999",
            "\u0661.\u0663.\u0664",
            None,
            1.33,
            5,
        ],
    )
    def test_what_is_none(self, text: object) -> None:
        assert versions.parse(text) is None
        assert versions.generation_of(text) is None

    def test_they_are_ordered_by_number(self) -> None:
        ordered = [
            "1.9.0-cmk.1",
            "1.31.7-cmk.24",
            "1.33.4-cmk.9",
            "1.33.4-cmk.20",
            "1.33.10-cmk.1",
            "1.34.0-cmk.1",
            "2.0.0-cmk.0",
        ]
        parsed = [found for each in ordered if (found := versions.parse(each))]
        assert sorted(parsed, key=lambda each: each) == parsed
        assert len(parsed) == len(ordered)

    def test_generations(self) -> None:
        assert (versions.generation_of(V1), versions.generation_of(V2)) == ("v1", "v2")


class TestCluster:
    def test_version_form(self) -> None:
        assert cluster.version("v", V1) == cluster.version("v", V2) == []
        assert only(cluster.version("v", "v1.33.4-cmk.43")).fix == "Write '1.33.4-cmk.43'"
        assert "such as" in only(cluster.version("v", "latest")).fix

    def test_pool_version_follows_the_cluster(self) -> None:
        for good in ("1.33.4-cmk.18", "1.32.7-cmk.3", "1.30.0-cmk.1", "1.33.4-cmk.99"):
            assert cluster.pool_version("p", good, V1) == []
        assert "newer" in only(cluster.pool_version("p", "1.33.5-cmk.1", V1)).problem
        assert "newer" in only(cluster.pool_version("p", "1.34.0-cmk.1", V1)).problem
        assert "3 minor versions" in only(cluster.pool_version("p", "1.29.9-cmk.1", V1)).problem
        assert "not a cluster version" in only(cluster.pool_version("p", "x", V1)).problem
        # A mixed pair was seen in Crusoe's own AMD example.
        assert cluster.pool_version("p", "1.33.4-cmk.18", "1.35.5-cmk.13") == []

    def test_a_running_cluster_keeps_its_version(self) -> None:
        assert cluster.unchanged_version("v", V1, V1) == cluster.unchanged_version("v", None, V1) == []
        found = only(cluster.unchanged_version("v", V1, "1.34.0-cmk.1"))
        assert "can't change" in found.problem
        assert "second cluster" in found.fix

    def test_oidc_pairs(self) -> None:
        assert cluster.oidc("o", {"issuerUrl": "https://login.example.com/x", "clientId": "c"}) == []
        assert only(cluster.oidc("o", {"issuerUrl": "https://login.example.com"})).path == "o.clientId"
        assert only(cluster.oidc("o", {"clientId": "c"})).path == "o.issuerUrl"
        assert [each.path for each in cluster.oidc("o", {"groupsClaim": "groups"})] == ["o.issuerUrl", "o.clientId"]
        assert only(cluster.oidc("o", {"issuerUrl": "https://h", "clientId": ""})).path == "o.clientId"

    @pytest.mark.parametrize(
        ("issuer", "fix"),
        [
            ("http://login.example.com/x", "'https://login.example.com/x'"),
            ("login.example.com", "'https://login.example.com'"),
            ("https://login.example.com/x?y=1", "'https://login.example.com/x'"),
            ("https://login.example.com/x#y", "'https://login.example.com/x'"),
            ("https://[", "'https://login.example.com'"),
            ("", "'https://login.example.com'"),
        ],
    )
    def test_issuers(self, issuer: str, fix: str) -> None:
        found = only(cluster.oidc("o", {"issuerUrl": issuer, "clientId": "c"}))
        assert found.path == "o.issuerUrl"
        assert fix in found.fix

    def test_groups_need_a_claim(self) -> None:
        full = {"issuerUrl": "https://h", "clientId": "c", "groupsClaim": "groups"}
        assert cluster.groups("g", ["ml"], "o", full) == cluster.groups("g", [], "o", {}) == []
        assert only(cluster.groups("g", ["ml"], "o", {})).path == "g"
        assert (
            only(cluster.groups("g", ["ml"], "o", {"issuerUrl": "https://h", "clientId": "c"})).path == "o.groupsClaim"
        )
        assert "built-in" in only(cluster.groups("g", ["system:masters"], "o", full)).problem

    def test_extra_arguments(self) -> None:
        assert cluster.extra_args("a", {"v": "4"}) == cluster.extra_args("a", None) == []
        assert "clear every argument" in only(cluster.extra_args("a", {})).problem
        assert only(cluster.extra_args("a", {"--v": "4"})).fix == "Write 'v'"

    def test_add_ons(self) -> None:
        full = ["crusoe_csi", "nvidia_gpu_operator", "nvidia_network_operator"]
        assert cluster.add_ons("a", full, ["h100-80gb-sxm-ib.8x", "c1a.8x"]) == []
        assert (
            cluster.add_ons("a", ["nvidia_gpu_operator"], ["l40s-48gb.10x"])
            == cluster.add_ons("a", None, ["h100-80gb-sxm-ib.8x"])
            == []
        )
        assert only(cluster.add_ons("a", ["crusoe_csi", "crusoe_csi"])).path == "a[1]"
        assert only(cluster.add_ons("a", ["nvidia-gpu-operator"])).fix == "Write 'nvidia_gpu_operator'"
        assert cluster.add_ons("a", ["autoclusters"]) == [], "names that no source gives may be right"
        missing = cluster.add_ons("a", ["nvidia_gpu_operator"], ["mi300x-192gb-ib.8x"])
        assert [each.fix for each in missing] == ["Add 'amd_gpu_operator'", "Add 'amd_network_operator'"]

    def test_v2_settings_on_v1(self) -> None:
        assert only(cluster.generation_settings("c", V1, {"routingMode": "native"})).path == "c.routingMode"
        assert cluster.generation_settings("c", V2, {"routingMode": "native"}) == []


class TestAutoClusters:
    @pytest.mark.parametrize(
        ("version", "minimum"),
        [
            ("1.33.4-cmk.19", "1.33.4-cmk.20"),
            ("1.33.3-cmk.99", "1.33.4-cmk.20"),
            ("1.32.7-cmk.21", "1.32.7-cmk.22"),
            ("1.31.7-cmk.23", "1.31.7-cmk.24"),
            ("1.31.6-cmk.99", "1.31.7-cmk.24"),
            ("1.30.8-cmk.9", "1.31.7-cmk.24"),
        ],
    )
    def test_older_versions_are_refused_with_the_minimum(self, version: str, minimum: str) -> None:
        found = only(autoclusters.version("v", version))
        assert f"at least {minimum}" in found.problem
        assert minimum in found.fix
        assert not autoclusters.supported(version)

    @pytest.mark.parametrize(
        "version", ["1.33.4-cmk.20", "1.33.5-cmk.1", "1.32.8-cmk.1", "1.31.7-cmk.24", "1.34.0-cmk.1", "1.36.1-cmk.0"]
    )
    def test_versions_that_have_it(self, version: str) -> None:
        assert autoclusters.version("v", version) == []
        assert autoclusters.supported(version)

    def test_the_api_decides_when_it_says_so(self) -> None:
        assert autoclusters.version("v", "1.33.4-cmk.13", ["oidc", "autoclusters", "new_one"]) == []
        assert "without the feature" in only(autoclusters.version("v", "1.34.0-cmk.1", ["oidc"])).problem
        assert "at least" in only(autoclusters.version("v", "1.33.4-cmk.13", [])).problem

    def test_v2_is_refused_by_name(self) -> None:
        assert "consentMode" in only(autoclusters.version("v", V2)).fix
        found = autoclusters.generation("a", V2, {"actions": ON, "fallbackToProjectReservations": True})
        assert [each.path for each in found] == ["a.actions", "a.fallbackToProjectReservations"]
        assert autoclusters.generation("a", V2, {"actions": {}, "fallbackToProjectReservations": False}) == []
        assert autoclusters.generation("a", V1, {"actions": ON}) == []

    def test_issues_are_those_of_the_cluster(self) -> None:
        known = ["XID_74", "GPU_FELL_OFF_THE_BUS", "NEW_ISSUE"]
        assert autoclusters.actions("a", {"NEW_ISSUE": "REPLACE_NODE", "XID_74": "OFF"}, known) == []
        found = only(autoclusters.actions("a", {"XID-74": "REPLACE_NODE"}, known))
        assert found.path == "a.XID-74"
        assert found.fix == "Write XID_74; known are GPU_FELL_OFF_THE_BUS, NEW_ISSUE, XID_74"
        assert "GPU_FELL_OFF_THE_BUS, NEW_ISSUE, XID_74" in only(autoclusters.actions("a", {"FLOOD": "OFF"}, known)).fix
        assert "none" in only(autoclusters.actions("a", {"XID_74": "OFF"}, [])).fix

    def test_another_number_is_another_issue(self) -> None:
        known = ["XID_95", "XID_79", "GPU_FELL_OFF_THE_BUS"]
        assert only(autoclusters.actions("a", {"XID_999": "OFF"}, known)).fix == (
            "Write one of GPU_FELL_OFF_THE_BUS, XID_79, XID_95"
        )
        for spelling in ("xid-95", "Xid95", "XD_95"):
            assert only(autoclusters.actions("a", {spelling: "OFF"}, known)).fix.startswith("Write XID_95; known are")

    def test_issues_before_there_is_a_cluster(self) -> None:
        assert autoclusters.actions("a", {"ANY_ISSUE_7": "OFF"}) == []
        assert only(autoclusters.actions("a", {"xid 74": "OFF"})).fix == "Write XID_74"

    def test_actions(self) -> None:
        assert only(autoclusters.actions("a", {"XID_74": "replace"})).fix == 'Write "REPLACE_NODE"'
        assert only(autoclusters.actions("a", {"XID_74": "off"})).fix == 'Write "OFF"'
        assert only(autoclusters.actions("a", {"XID_74": "RESTART"})).fix == 'Write "REPLACE_NODE"'
        assert "in quotes" in only(autoclusters.actions("a", {"XID_74": False})).fix

    def test_repairs_need_a_pool_that_can_be_repaired(self) -> None:
        def check(actions: object, *types: str) -> list[Finding]:
            return autoclusters.repairable("a", actions, "n", {f"p{i}": {"type": each} for i, each in enumerate(types)})

        assert (
            check(ON, "c1a.8x", "h100-80gb-sxm-ib.8x", "a100-80gb.1x")
            == check(ON, "nonsense")
            == check({}, "a40.1x")
            == []
        )
        assert "'a100-80gb.8x'" in only(check(ON, "c1a.8x", "a100-80gb.1x")).fix
        assert only(check(ON, "mi300x-192gb-ib.8x"))
        assert only(check(ON, "c1a.8x"))
        assert check({"XID_74": "OFF"}, "c1a.8x") == []

    def test_pools_that_are_never_repaired(self) -> None:
        pools = {each.name: {"type": each.name} for each in catalog.vm_types().values()}
        found = {
            each.path.removeprefix("n.").removesuffix(".type"): each for each in autoclusters.unrepaired("n", pools)
        }
        assert set(found) == {each.name for each in catalog.vm_types().values() if each.gpus and not each.autoclusters}
        assert "slice" in found["a100-80gb.4x"].problem
        assert found["a100-80gb.4x"].fix == "Use the whole host, 'a100-80gb.8x'"
        assert "does not support" in found["mi300x-192gb-ib.8x"].problem
        assert "h100-80gb-sxm-ib.8x" in found["a40.2x"].fix

    def test_consent_on_v2_pools(self) -> None:
        assert (
            autoclusters.consent("c", "h100-80gb-sxm-ib.8x", "auto") == autoclusters.consent("c", "a40.1x", "off") == []
        )
        assert "slice" in only(autoclusters.consent("c", "a100-80gb.1x", "auto")).problem
        assert "no GPU" in only(autoclusters.consent("c", "c1a.8x", "propose")).problem

    def test_reserve(self) -> None:
        pools = {"train": {"reservation": {"selectionStrategy": "on_demand"}}}
        assert (
            autoclusters.reserve("r", False, {})
            == autoclusters.reserve("r", None, {})
            == autoclusters.reserve("r", True, ON)
            == []
        )
        assert "nothing would ever use" in only(autoclusters.reserve("r", True, {})).problem
        assert "on demand" in only(autoclusters.reserve("r", True, ON, pools)).problem
        assert autoclusters.reserve("r", True, ON, {**pools, "other": {}}) == []


class TestStorage:
    @pytest.mark.parametrize(
        ("kind", "size"),
        [
            ("persistent-ssd", "1GiB"),
            ("persistent-ssd", "10TiB"),
            ("persistent-ssd", "10240GiB"),
            ("shared-volume", "1TiB"),
            ("shared-volume", "2048GiB"),
            ("shared-volume", "1000TiB"),
        ],
    )
    def test_good_sizes(self, kind: str, size: str) -> None:
        assert storage.size("s", kind, size) == []

    @pytest.mark.parametrize(
        ("kind", "size", "fix"),
        [
            ("persistent-ssd", "11TiB", "'10TiB'"),
            ("shared-volume", "100GiB", "'1TiB'"),
            ("shared-volume", "1500GiB", "'2TiB'"),
            ("shared-volume", "1001TiB", "'1000TiB'"),
            ("shared-volume", "1.5TiB", "'2TiB'"),
            ("shared-volume", "300 gb", "'1TiB'"),
            ("shared-volume", "big", "'1TiB'"),
            ("persistent-ssd", "1.5TiB", "'1536GiB'"),
            ("persistent-ssd", "0.5GiB", "'1GiB'"),
            ("persistent-ssd", "12.5TiB", "'10TiB'"),
            ("persistent-ssd", "100", "'100GiB'"),
            ("persistent-ssd", "100GB", "'100GiB'"),
            ("persistent-ssd", "2 tb", "'2TiB'"),
            ("persistent-ssd", "0GiB", "'100GiB'"),
            ("persistent-ssd", "big", "'100GiB'"),
        ],
    )
    def test_bad_sizes(self, kind: str, size: str, fix: str) -> None:
        assert fix in only(storage.size("s", kind, size)).fix

    def test_units(self) -> None:
        assert (storage.gib("10TiB"), storage.gib("10240GiB"), storage.gib("x"), storage.gib(None)) == (
            10240,
            10240,
            None,
            None,
        )

    def test_disks_only_grow(self) -> None:
        assert storage.grows("s", "1TiB", "1024GiB") == storage.grows("s", "1TiB", "2TiB") == []
        assert "'2TiB'" in only(storage.grows("s", "2TiB", "1TiB")).fix

    def test_shared_disks_mount_on_whole_hosts(self) -> None:
        assert storage.shared_mount("t", "c1a.8x") == storage.shared_mount("t", "l40s-48gb.10x") == []
        assert "'l40s-48gb.10x'" in only(storage.shared_mount("t", "l40s-48gb.8x")).fix
