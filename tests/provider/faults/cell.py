"""One cell of the matrix: the fault, then what has to hold: a clear message, a true state, a next run that finishes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from crusoe.provider.kind import PENDING
from crusoe.provider.values import Values
from tests.harness import Cloud, Json
from tests.provider.engine import FailedError, Plugin, Resource
from tests.provider.faults import messages
from tests.provider.faults.kinds import Ground, Inputs, Row
from tests.provider.faults.table import SAID, Cell

Outcome = Literal["done", "told", "kept"]
"""The run did what was asked; it told an error and left things as they were; it told one and recorded what is there."""

BOUND_SECONDS = 20.0
"""How long a resource waits for an operation that never ends, in time that the run skips."""

Runs = Callable[[], AbstractContextManager[Plugin]]


@dataclass
class Site:
    """Where cells are tried: a cloud with what all of them stand on, and runs of the provider on it."""

    cloud: Cloud
    ground: Ground
    run: Runs
    secrets: tuple[str, ...]


class Trial:
    """One cell being tried; `name` is its object's alone."""

    def __init__(self, site: Site, cell: Cell, name: str) -> None:
        self.site, self.cell, self.row, self.name = site, cell, cell.row, name
        own = {"name": name, "adoptExisting": True} if self.row.has_name else {}
        self.inputs: Inputs = {**own, **self.row.inputs(site.ground)}
        self.changed: Inputs = {**self.inputs, **named(self.row.changed or {}, name)}
        self.vms: set[str] = self._machines()
        self.path = self.row.path.format(slurm=site.ground.slurm)
        self.resource = Resource(None, self.row.kind, name)  # type: ignore[arg-type] - each run brings its own

    def outcome(self) -> Outcome:
        """Try it; raises AssertionError with what does not hold."""
        try:
            result, failure = self._first_run()
            if failure is not None:
                self._message_is_clear(failure)
            if self.cell.fault.kind != "stall-operation":
                # Before the lists, which are to be read; an operation that stalls would go on.
                self.site.cloud.admin("DELETE", "/faults")
            if self.cell.fault.kind is not None:
                self._state_is_true()
            else:
                self._stranger_leaves()
            self.site.cloud.admin("DELETE", "/faults")
            self._next_run_finishes()
            self._nothing_is_left()
        finally:
            self.site.cloud.admin("DELETE", "/faults")
        return result

    def _first_run(self) -> tuple[Outcome, FailedError | None]:
        operation, fault = self.cell.operation, self.cell.fault
        if operation != "create":
            with self._as_one_run():
                self.resource.up(self.inputs)
        if fault.kind is None:
            self._somebody_else()
        else:
            self.site.cloud.fault(self.row.request(operation), fault.kind, **self.cell.options)
        before = copy.deepcopy((self.resource.id, self.resource.state))
        self.resource.seconds = BOUND_SECONDS if fault.kind == "stall-operation" else 0.0
        steps: dict[str, Callable[[], object]] = {
            "create": lambda: self.resource.up(self.inputs),
            "read": self.resource.refresh,
            "update": lambda: self.resource.up(self.changed),
            "delete": self.resource.destroy,
        }
        try:
            with self._as_one_run():
                steps[operation]()
        except FailedError as error:
            same = before == (self.resource.id, self.resource.state)
            return ("told" if same else "kept"), error
        finally:
            self.resource.seconds = 0.0
        return "done", None

    def _somebody_else(self) -> None:
        """Does what somebody else does, through the API."""
        own = f"/{self.path}/{self.resource.id.rpartition('/')[2]}"
        place = f"{own}/autoclusters/config" if not self.row.has_name else own
        if self.cell.fault.title.startswith("deleted"):
            self.site.cloud.api("DELETE", place)
        elif self.cell.operation == "create":
            with self.site.run() as plugin:
                self.stranger = plugin.resource(self.row.kind, "stranger")
                self.stranger.up({**self.inputs, **self.row.different})
        else:
            assert self.row.by_hand is not None
            self.site.cloud.api("PATCH", place, named(self.row.by_hand, self.name))

    def _stranger_leaves(self) -> None:
        """What another made under the name is his, and untouched; he takes it away."""
        if self.cell.operation == "create":
            assert not self.resource.id, "somebody else's object was taken"
            assert [one["id"] for one in self._objects()] == [self.stranger.id.rpartition("/")[2]]
            with self.site.run() as plugin:
                self.stranger.plugin = plugin
                self.stranger.destroy()

    def _message_is_clear(self, failure: FailedError) -> None:
        about = (self.name, self.resource.id, self.site.ground.v1) if not self.row.has_name else (self.name,)
        # That something is not there is told in the provider's own words, since it looks before it believes it.
        own_words = self.cell.fault.kind == "http-404" and self.cell.operation != "create"
        said = SAID if self.cell.fault.says and not own_words else None
        wrong = messages.faults_of(failure.message, about=about, said=said, secrets=self.site.secrets)
        assert not wrong, f"the message {'; '.join(wrong)}: {failure.message}"

    def _state_is_true(self) -> None:
        """What is recorded is there, what is there is recorded, and as it is."""
        there = [one["id"] for one in self._objects()]
        recorded = self.resource.id.rpartition("/")[2]
        assert there == ([recorded] if recorded else []), f"the cloud has {there}, the state {recorded or 'nothing'}"
        if not recorded or PENDING in self.resource.outputs or self.cell.fault.kind == "stall-operation":
            return
        with self.site.run() as plugin:
            again = replace(self.resource, plugin=plugin)
            drift = again.refresh()
            assert _shown(again.outputs) == _shown(self.resource.outputs), f"recorded otherwise than it is: {drift}"

    def _next_run_finishes(self) -> None:
        operation, stranger = self.cell.operation, self.cell.fault.kind is None
        wanted = self.changed if operation == "update" else self.inputs
        if stranger and operation != "create" and not self.cell.fault.title.startswith("deleted"):
            wanted = {**wanted, **self.row.follows}
        with self._as_one_run():
            if operation == "delete":
                if self.resource.id:
                    self.resource.destroy()
                return
            if stranger and self.resource.id:
                self.resource.refresh()
            self.resource.up(wanted)
        with self._as_one_run():
            assert self.resource.preview(wanted)[:2] == ("same", {}), "the run after the next one still has work"
            assert self.resource.refresh() == {}
            assert [one["id"] for one in self._objects()] == [self.resource.id.rpartition("/")[2]]
            self.resource.destroy()

    def _nothing_is_left(self) -> None:
        if self.row.taken_back and self.cell.fault.kind is None and self.cell.operation == "delete":
            assert self._objects(), "what somebody else set was taken away"
            self.site.cloud.api("PATCH", f"/{self.path}/{self.site.ground.v1}/autoclusters/config", self.row.taken_back)
        assert not self._objects(), "something was left"
        left = self._machines() - self.vms
        assert not left, f"{len(left)} VMs were left"

    def _machines(self) -> set[str]:
        if not self.row.takes_machines:
            return set[str]()
        return {str(one["id"]) for one in self.site.cloud.items("/compute/vms/instances")}

    @contextmanager
    def _as_one_run(self) -> Generator[None]:
        with self.site.run() as plugin:
            self.resource.plugin = plugin
            yield

    def _objects(self) -> list[Json]:
        """Everything of this cell that the cloud has."""
        if not self.row.has_name:
            config = self.site.cloud.api("GET", f"/kubernetes/clusters/{self.site.ground.v1}/autoclusters/config")
            is_set = any("user_override" in one for one in config["remediation_configs"])
            return [{"id": self.site.ground.v1}] if is_set else []
        recorded = self.resource.id.rpartition("/")[2]
        return [
            one
            for one in self.site.cloud.items(f"/{self.path}")
            if one["name"].startswith(self.name) or one["id"] == recorded
        ]


def named(values: Any, name: str) -> Any:
    """Values in which `{name}` stands for the object's."""
    return {key: value.format(name=name) if value == f"{{name}}{str(value)[6:]}" else value
            for key, value in values.items()}  # fmt: skip


def _shown(outputs: Values) -> Values:
    """The properties that stay as they are: a kubeconfig is another one each time."""
    return {key: value for key, value in outputs.items() if not key.startswith("__") and key != "kubeconfig"}


def kinds_of(row: Row) -> str:
    """The row's kind, for the id of a test."""
    return row.title.replace(" ", "-").replace("(", "").replace(")", "")
