"""Objects that the API makes under a name: never two, never an orphan, done only when they work."""

from __future__ import annotations

import re
import threading
from typing import Any, cast

import httpx
import pytest

from crusoe.client import Cancelled, CrusoeError
from crusoe.provider.faults import PartlyDoneError, RefusalError
from crusoe.provider.kind import PENDING
from crusoe.provider.networking import VpcNetwork, VpcSubnet
from crusoe.provider.properties import UNREAD
from crusoe.provider.storage import StorageDisk
from crusoe.provider.values import Values
from tests.unit.provider.support import Bench, FakeApi, after, answer, before, listing, lost, refusal, values

NETWORKS, DISKS = "networking/vpc-networks", "storage/disks"
NET = values(name="net", cidr="10.0.0.0/16", adoptExisting=True)
BY_HAND = values(name="net", cidr="10.0.0.0/16")
DISK = values(name="disk", location="here", size="10TiB", adoptExisting=True)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def make(bench: Bench, inputs: Values = NET) -> tuple[str, Values]:
    return VpcNetwork().create(bench.run(), inputs)


class TestCreate:
    def test_a_synchronous_answer(self, bench: Bench) -> None:
        bench.api.faults = []
        object_id, state = make(bench)
        assert bench.api.objects[NETWORKS][object_id]["name"] == "net"
        assert state["name"] == "net"
        assert state["cidr"] == "10.0.0.0/16"
        assert state["projectId"] == bench.session.client.project_id

    def test_an_operation(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        assert bench.api.sent("POST", DISKS) == [
            {"name": "disk", "location": "here", "type": "persistent-ssd", "size": "10TiB"}
        ]
        assert state["size"] == "10TiB"
        assert object_id in bench.api.objects[DISKS]

    def test_the_names_are_listed_once_for_many(self, bench: Bench) -> None:
        for index in range(5):
            make(bench, values(name=f"net-{index}", cidr="10.0.0.0/16"))
        lists = [path for method, path, _ in bench.api.requests if method == "GET" and path == NETWORKS]
        assert len(lists) == 1

    def test_an_answer_without_the_object_is_read_again(self, bench: Bench) -> None:
        bench.api.fault(
            "POST", NETWORKS, lambda _api, _request, work: answer({"network": {"id": work().json()["network"]["id"]}})
        )
        assert make(bench)[1]["cidr"] == "10.0.0.0/16"

    def test_an_answer_without_an_id_is_found_by_name(self, bench: Bench) -> None:
        bench.api.fault(
            "POST",
            DISKS,
            lambda _api, _request, work: answer({"operation": {**work().json()["operation"], "result": None}}),
        )
        object_id, _ = StorageDisk().create(bench.run(), DISK)
        assert list(bench.api.objects[DISKS]) == [object_id]

    def test_a_404_right_after_is_not_believed(self, bench: Bench) -> None:
        missing = before(404, "not there yet")
        bench.api.fault(
            "POST", NETWORKS, lambda _api, _request, work: answer({"network": {"id": work().json()["network"]["id"]}})
        )
        bench.api.fault("GET", f"{NETWORKS}/id-", missing, missing, missing)
        assert make(bench)[1]["cidr"] == "10.0.0.0/16"
        assert sum(bench.clock.waits) < 5

    def test_a_lasting_404_leaves_a_recorded_object(self, bench: Bench) -> None:
        bench.api.fault(
            "POST", NETWORKS, lambda _api, _request, work: answer({"network": {"id": work().json()["network"]["id"]}})
        )
        bench.api.fault("GET", f"{NETWORKS}/id-", *[before(404, "no")] * 50)
        with pytest.raises(PartlyDoneError, match="does not find it after 30 s") as error:
            make(bench)
        assert error.value.object_id in bench.api.objects[NETWORKS]

    def test_a_refusal_is_told_with_the_apis_words(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, before(400, "the range is odd"))
        with pytest.raises(RefusalError, match="the range is odd"):
            make(bench)


class TestLostAnswers:
    @pytest.mark.parametrize("fault", [after(500), after(503), lost], ids=["500", "503", "dropped"])
    def test_work_that_was_done_is_found_by_name_and_never_done_twice(self, bench: Bench, fault: Any) -> None:
        bench.api.fault("POST", NETWORKS, fault)
        object_id, _ = make(bench)
        assert list(bench.api.objects[NETWORKS]) == [object_id]
        assert len(bench.api.sent("POST", NETWORKS)) == 1

    def test_work_that_shows_late_is_found(self, bench: Bench) -> None:
        empty = listing()
        bench.api.fault("POST", NETWORKS, after(500))
        bench.api.fault("GET", rf"{NETWORKS}$", empty, empty, empty)
        make(bench)
        assert len(bench.api.objects[NETWORKS]) == 1
        assert len(bench.api.sent("POST", NETWORKS)) == 1

    def test_a_500_without_work_is_asked_once_more(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, before(500))
        make(bench)
        assert len(bench.api.objects[NETWORKS]) == 1
        assert len(bench.api.sent("POST", NETWORKS)) == 2

    def test_but_not_twice(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, *[before(500, "broken for good")] * 9)
        with pytest.raises(RefusalError, match="broken for good"):
            make(bench)
        assert len(bench.api.sent("POST", NETWORKS)) == 2

    def test_a_second_post_that_answers_409_finds_the_first_ones_work(self, bench: Bench) -> None:
        empty = listing()
        bench.api.fault("POST", NETWORKS, after(500))
        bench.api.fault("GET", rf"{NETWORKS}$", *[empty] * 4)
        make(bench)
        assert len(bench.api.sent("POST", NETWORKS)) == 2
        assert len(bench.api.objects[NETWORKS]) == 1

    def test_a_409_for_a_free_name_means_busy_and_is_waited_out(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, *[before(409, "operation x is still working on it")] * 3)
        make(bench)
        assert len(bench.api.objects[NETWORKS]) == 1

    def test_but_not_for_ever(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, *[before(409, "operation x is still working on it")] * 999)
        with pytest.raises(RefusalError, match="still working on it"):
            make(bench)
        assert sum(bench.clock.waits) < 400

    def test_what_was_made_otherwise_is_refused_with_the_import_command(self, bench: Bench) -> None:
        def other(api: FakeApi, _request: httpx.Request, _work: Any) -> httpx.Response:
            api.put(NETWORKS, name="net", cidr="10.9.0.0/16")
            return refusal(500, "broken")

        bench.api.fault("POST", NETWORKS, other)
        with pytest.raises(RefusalError, match=r"differs in cidr.*`pulumi import crusoe:index:VpcNetwork it id-"):
            make(bench)
        assert len(bench.api.objects[NETWORKS]) == 1

    def test_a_name_by_hand_is_never_adopted(self, bench: Bench) -> None:
        bench.api.fault("POST", NETWORKS, after(500))
        with pytest.raises(RefusalError, match="Import it with `pulumi import crusoe:index:VpcNetwork it id-"):
            make(bench, BY_HAND)


class TestAdoption:
    def test_an_object_that_agrees_is_adopted_and_said_so(self, bench: Bench) -> None:
        there = bench.api.put(NETWORKS, name="net", cidr="10.0.0.0/16", gateway="10.0.0.1")
        object_id, state = make(bench)
        assert (object_id, state["gateway"]) == (there, "10.0.0.1")
        assert not bench.api.sent("POST")
        assert bench.engine.warnings == [f"Adopted the existing VPC network net ({there})."]

    def test_meaning_counts_not_spelling(self, bench: Bench) -> None:
        bench.api.put(DISKS, name="disk", location="here", size="10240GiB", type="persistent-ssd")
        StorageDisk().create(bench.run(), DISK)

    def test_an_object_that_differs_is_refused(self, bench: Bench) -> None:
        bench.api.put(NETWORKS, name="net", cidr="10.1.0.0/16")
        with pytest.raises(RefusalError, match="differs in cidr"):
            make(bench)

    def test_a_name_in_a_list_is_confirmed_before_it_is_believed(self, bench: Bench) -> None:
        gone = listing({"id": "gone", "name": "net", "cidr": "10.0.0.0/16"})
        bench.api.fault("GET", rf"{NETWORKS}$", gone)
        make(bench)
        assert len(bench.api.sent("POST", NETWORKS)) == 1

    def test_several_of_one_name_are_refused(self, bench: Bench) -> None:
        ids = [bench.api.put(NETWORKS, name="net", cidr="10.0.0.0/16") for _ in range(2)]
        with pytest.raises(RefusalError, match=", ".join(ids)):
            make(bench)

    def test_another_resources_object_is_refused(self, bench: Bench) -> None:
        VpcNetwork().create(bench.run("one"), NET)
        with pytest.raises(RefusalError, match="already belongs to urn:pulumi:s::p::k::one"):
            VpcNetwork().create(bench.run("two"), NET)

    def test_an_object_that_is_being_deleted_is_waited_for(self, bench: Bench) -> None:
        old = bench.api.put(DISKS, name="disk", location="here", size="1GiB", state="STATE_DELETING")

        def deleted() -> None:
            bench.api.objects[DISKS].pop(old, None)

        bench.clock.on_sleep = deleted
        object_id, _ = StorageDisk().create(bench.run(), DISK)
        assert object_id != old

    def test_a_deletion_under_way_is_waited_for_even_without_a_state(self, bench: Bench) -> None:
        old = bench.api.put(DISKS, name="disk", location="here", size="10TiB", type="persistent-ssd")
        running = {"operation_id": "op", "state": "IN_PROGRESS", "of": old}
        bench.api.operations["op"] = running

        def done() -> None:
            bench.api.objects[DISKS].pop(old, None)
            bench.api.operations["op"] = {**running, "state": "SUCCEEDED"}

        bench.clock.on_sleep = done
        object_id, _ = StorageDisk().create(bench.run(), DISK)
        assert object_id != old

    def test_a_replacement_made_before_its_old_one_is_deleted_keeps_the_object(self, bench: Bench) -> None:
        there = bench.api.put(NETWORKS, name="net", cidr="10.0.0.0/16")
        _, state = make(bench)
        VpcNetwork().delete(bench.run(), there, state)
        assert there in bench.api.objects[NETWORKS]
        assert "Kept the VPC network net" in bench.engine.warnings[-1]


class TestFailedAndCut:
    def test_a_failed_operation_leaves_nothing_behind(self, bench: Bench) -> None:
        bench.api.failing = "it broke"

        def fail(api: FakeApi, _request: httpx.Request, work: Any) -> httpx.Response:
            response = work()
            api.failing = None
            return response

        bench.api.fault("POST", DISKS, fail)
        with pytest.raises(RefusalError, match="it broke"):
            StorageDisk().create(bench.run(), DISK)
        assert bench.api.objects[DISKS] == {}

    def test_an_operation_out_of_time_leaves_a_recorded_object(self, bench: Bench) -> None:
        bench.api.pending = True
        with pytest.raises(PartlyDoneError, match="still IN_PROGRESS after") as error:
            StorageDisk().create(bench.run(seconds=30), DISK)
        assert error.value.object_id in bench.api.objects[DISKS]
        assert error.value.state["size"] == "10TiB"

    def test_a_cancel_reports_id_and_state(self, bench: Bench) -> None:
        bench.api.pending = True
        bench.clock.on_sleep = bench.session.cancel.set
        with pytest.raises(PartlyDoneError, match=r"exists as id-\d+, its operation op-\d+ in state IN_PROGRESS"):
            StorageDisk().create(bench.run(), DISK)

    def test_a_cancel_before_anything_exists_says_only_that(self, bench: Bench) -> None:
        bench.session.cancel.set()
        with pytest.raises(Cancelled):
            make(bench)
        assert not bench.api.sent("POST")

    def test_a_rate_limit_after_a_capacity_error_is_not_waited_for(self, bench: Bench) -> None:
        bench.api.fault("POST", DISKS, before(500, "out of host capacity"), before(429, "slow down"))
        with pytest.raises(RefusalError, match="out of host capacity"):
            StorageDisk().create(bench.run(), DISK)
        assert len(bench.api.sent("POST", DISKS)) == 1


class TestRead:
    def test_drift_comes_into_the_inputs(self, bench: Bench) -> None:
        object_id, state = make(bench)
        bench.api.objects[NETWORKS][object_id]["name"] = "renamed"
        found = VpcNetwork().read(bench.run(), object_id, NET, state)
        assert found is not None
        assert found.inputs == {**NET, "name": "renamed"}
        assert found.state["name"] == "renamed"

    def test_gone_is_gone(self, bench: Bench) -> None:
        object_id, state = make(bench)
        del bench.api.objects[NETWORKS][object_id]
        assert VpcNetwork().read(bench.run(), object_id, NET, state) is None

    def test_a_404_is_not_believed_while_the_list_shows_the_object(self, bench: Bench) -> None:
        object_id, state = make(bench)
        bench.api.fault("GET", object_id, before(404, "no"), before(404, "no"))
        assert VpcNetwork().read(bench.run(), object_id, NET, state) is not None

    @pytest.mark.parametrize("status", [401, 403, 500])
    def test_other_errors_never_drop_the_object(self, bench: Bench, status: int) -> None:
        object_id, state = make(bench)
        bench.api.fault("GET", object_id, *[before(status)] * 9)
        with pytest.raises(CrusoeError):
            VpcNetwork().read(bench.run(), object_id, NET, state)

    def test_an_import_fills_the_inputs(self, bench: Bench) -> None:
        there = bench.api.put(DISKS, name="d", location="here", size="1TiB", type="shared-volume")
        found = StorageDisk().read(bench.run(), there, {}, {})
        assert found is not None
        assert found.inputs == {"name": "d", "location": "here", "size": "1TiB", "type": "shared-volume"}
        assert found.state[UNREAD] == []

    def test_an_import_of_nothing_is_none(self, bench: Bench) -> None:
        assert VpcNetwork().read(bench.run(), "nothing", {}, {}) is None
        assert sum(bench.clock.waits) == 0


class TestUpdate:
    def change(self, bench: Bench, object_id: str, state: Values, news: Values) -> Values:
        kind = StorageDisk()
        return kind.update(bench.run(), object_id, state, news, kind.differences(DISK, state, news))

    def test_only_what_changed_is_sent(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        after_ = self.change(bench, object_id, state, {**DISK, "size": "11TiB"})
        assert bench.api.sent("PATCH") == [{"size": "11TiB"}]
        assert after_["size"] == "11TiB"

    def test_an_old_value_right_after_the_change_is_read_again(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        stale = dict(bench.api.objects[DISKS][object_id])
        bench.api.fault("GET", object_id, lambda _api, _request, _work: answer(stale))
        assert self.change(bench, object_id, state, {**DISK, "size": "11TiB"})["size"] == "11TiB"

    def test_an_object_that_is_gone_is_told(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        bench.api.objects[DISKS].clear()
        with pytest.raises(RefusalError, match="no longer exists; run `pulumi refresh`"):
            self.change(bench, object_id, state, {**DISK, "size": "11TiB"})

    def test_an_unconfirmed_change_is_sent_again_by_the_next_run(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        bench.api.pending = True
        news = {**DISK, "size": "11TiB"}
        with pytest.raises(PartlyDoneError) as error:
            self.change(bench, object_id, state, news)
        assert error.value.object_id == object_id
        again = StorageDisk().differences(news, error.value.state, news)
        assert [one.property for one in again] == ["size"]
        bench.api.pending = False
        assert PENDING not in self.change(bench, object_id, error.value.state, news)

    def test_a_failed_change_is_no_partial_state(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        bench.api.failing = "no room"
        with pytest.raises(RefusalError, match="no room"):
            self.change(bench, object_id, state, {**DISK, "size": "11TiB"})

    def test_the_nat_action_is_only_sent_when_it_is_what_changes(self) -> None:
        subnet = VpcSubnet()
        assert subnet.patch({"name"}, {}, values(name="n", natGatewayEnabled=True)) == {"name": "n"}
        assert subnet.patch({"natGatewayEnabled"}, {}, values(name="n")) == {"nat_gateway_action": "disable"}


class TestDelete:
    def test_gone_already_is_fine(self, bench: Bench) -> None:
        VpcNetwork().delete(bench.run(), "gone", {})

    def test_not_found_of_an_object_that_is_there_does_not_orphan_it(self, bench: Bench) -> None:
        object_id, state = make(bench)
        bench.api.fault("DELETE", object_id, before(404, "not here"))
        VpcNetwork().delete(bench.run(), object_id, state)
        assert object_id not in bench.api.objects[NETWORKS], "asked again"
        object_id, state = make(bench)
        bench.api.fault("DELETE", object_id, *[before(404, "not here")] * 999)
        with pytest.raises(RefusalError, match="not here"):
            VpcNetwork().delete(bench.run(), object_id, state)

    def test_in_use_is_asked_again_within_a_bound(self, bench: Bench) -> None:
        object_id, state = make(bench)
        bench.api.fault("DELETE", object_id, *[before(400, "in use by subnet x")] * 3)
        VpcNetwork().delete(bench.run(), object_id, state)
        assert object_id not in bench.api.objects[NETWORKS]

    def test_and_told_when_it_lasts(self, bench: Bench) -> None:
        object_id, state = make(bench)
        bench.api.fault("DELETE", object_id, *[before(400, "in use by subnet x")] * 999)
        with pytest.raises(RefusalError, match=r"in use by subnet x.*for 120 s"):
            VpcNetwork().delete(bench.run(), object_id, state)
        assert sum(bench.clock.waits) <= 120

    def test_a_failed_deletion_is_told(self, bench: Bench) -> None:
        object_id, state = StorageDisk().create(bench.run(), DISK)
        bench.api.failing = "stuck"
        with pytest.raises(CrusoeError, match="stuck"):
            StorageDisk().delete(bench.run(), object_id, state)

    def test_an_object_of_a_renamed_resource_is_kept(self, bench: Bench) -> None:
        object_id, state = make(bench)
        VpcNetwork().delete(bench.run("old-name"), object_id, state)
        assert object_id in bench.api.objects[NETWORKS]
        assert re.match(r"Kept the VPC network net \(id-\d+\), which now belongs to", bench.engine.warnings[-1])


def test_one_list_tells_the_ids_of_many_long_creates(bench: Bench) -> None:
    bench.api.pending = True
    existing = bench.run().existing
    for index in range(3):
        bench.api.put(DISKS, name=f"d{index}")
    start = bench.clock.seconds
    bench.clock.seconds += 5
    for index in range(3):
        assert existing.find(DISKS, f"d{index}", since=start)
    assert len([path for method, path, _ in bench.api.requests if method == "GET" and path == DISKS]) == 1
    bench.api.put(DISKS, name="later")
    assert not existing.find(DISKS, "later", since=start)
    assert existing.find(DISKS, "later", since=bench.clock.seconds)


def test_many_threads_list_once(bench: Bench) -> None:
    threads = [
        threading.Thread(target=make, args=(bench, values(name=f"net-{index}", cidr="10.0.0.0/16")))
        for index in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(bench.api.objects[NETWORKS]) == 16
    lists = [path for method, path, _ in bench.api.requests if method == "GET" and path == NETWORKS]
    assert len(lists) == 1


def test_the_session_tells_the_same_fault_each_time(bench: Bench) -> None:
    calls: list[int] = []

    def refuse(*_: Any) -> Any:
        calls.append(1)
        raise CrusoeError("no key")

    cast("Any", bench.session)._connect = refuse
    for _ in range(3):
        with pytest.raises(CrusoeError, match="no key"):
            _ = bench.session.client
    assert len(calls) == 1
