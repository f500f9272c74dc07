"""The state folder, the keys, the store and the journal."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localcloud.clock import Clock
from localcloud.events import Event, Journal
from localcloud.keys import load_or_make
from localcloud.state import Configuration, LocalCloudError, ServerProcess, StateFolder, start_time
from localcloud.store import NameTakenError, Object, Store


def test_keys_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    keys = load_or_make(tmp_path, ["local", "other"])
    assert load_or_make(tmp_path, ["local", "other"]) == keys
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600
    key = keys.of_project("local")
    assert "=" not in key.secret
    assert key.decoded() == base64.urlsafe_b64decode(key.secret + "=")
    assert key.secret not in repr(key)
    assert keys.admin_token not in repr(keys)
    assert key.id != keys.of_project("other").id
    with pytest.raises(KeyError):
        keys.of_project("third")


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert not folder.held()
    assert folder.server() is None
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from localcloud.state import StateFolder\n"
            "folder = StateFolder(Path(sys.argv[1])); folder.hold(); folder.announce(4711)\n"
            "print('held', flush=True); sys.stdin.read()",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        with pytest.raises(LocalCloudError, match="already uses the state folder"):
            folder.hold()
        server = folder.server()
        assert server is not None
        assert (server.pid, server.port, server.endpoint) == (holder.pid, 4711, "http://127.0.0.1:4711/v1")
    finally:
        holder.kill()
        holder.wait()
    # The lock ends with its process, however it ends.
    assert folder.server() is None
    assert not folder.held()


def test_process_id_alone_is_no_proof() -> None:
    assert start_time(os.getpid())
    assert start_time(2**22 + 1) is None
    assert not ServerProcess(os.getpid(), "another time", 1).alive()
    assert ServerProcess(os.getpid(), start_time(os.getpid()) or "", 1).alive()


def test_configuration_is_kept(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert not folder.exists()
    assert folder.configuration() == Configuration(8787, outside_vpc=False)
    folder.configure(Configuration(9000, outside_vpc=True))
    assert folder.exists()
    assert StateFolder(tmp_path).configuration() == Configuration(9000, outside_vpc=True)


def thing(identifier: str, name: str, project: str = "p", **body: str) -> Object:
    return Object("thing", identifier, project, name, body=dict(body), hidden={"h": 1})


def test_store_keeps_objects(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    first = store.insert(thing("1", "a", colour="red"))
    second = store.insert(thing("2", "b"))
    assert second.seq > first.seq
    store.close()
    store = Store(tmp_path / "db")
    assert store.get("thing", "1") == first
    assert store.get("other", "1") is None
    assert store.named("thing", "p", "b") == second
    assert store.holding("thing", "colour", "red") == first
    assert store.all("thing", "p") == [first, second]
    assert store.exists("1", "p")
    assert not store.exists("1", "q")
    store.remove("thing", "1")
    assert store.get("thing", "1") is None


def test_store_holds_names_unique_per_kind_and_project() -> None:
    store = Store(":memory:")
    store.insert(thing("1", "a"))
    with pytest.raises(NameTakenError):
        store.insert(thing("2", "a"))
    other = store.insert(thing("3", "a", project="q"))
    other.project_id = "q"
    second = store.insert(thing("4", "b"))
    second.name = "a"
    with pytest.raises(NameTakenError):
        store.save(second)


def test_transaction_is_all_or_nothing() -> None:
    store = Store(":memory:")

    def half() -> None:
        with store.transaction():
            store.insert(thing("1", "a"))
            with store.transaction():
                store.insert(thing("2", "b"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert store.all("thing") == []
    with store.transaction():
        store.insert(thing("1", "a"))
    assert len(store.all("thing")) == 1


def test_settings() -> None:
    store = Store(":memory:")
    assert store.setting("a", 1) == 1
    store.set_setting("p:a", 2)
    store.set_setting("p:b", [3])
    store.set_setting("q_a", 4)
    assert store.setting("p:b") == [3]
    assert store.settings("p:") == {"a": 2, "b": [3]}


def test_journal_tells_and_keeps() -> None:
    journal = Journal(Store(":memory:"), Clock())
    heard: list[Event] = []
    journal.record("a", "1")
    journal.subscribe(heard.append)
    journal.record("b", "2", why="because")
    assert [(event.kind, event.subject, event.detail) for event in heard] == [("b", "2", {"why": "because"})]
    assert [event.kind for event in journal.since()] == ["a", "b"]
    assert [event.kind for event in journal.since(1)] == ["b"]
