"""`python -m drill`, as `make drill` runs it: the stack's outputs and settings come as JSON by standard input."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crusoe.client import Client, CrusoeError, connect
from drill import conduct, picture, refusal, report
from drill.deeds import Hands, LocalCloud
from drill.job import PROGRAM
from drill.observations import write
from drill.room import Room, RoomError
from drill.scenarios import BY_NAME, SCENARIOS, Scenario
from drill.site import Site, SiteError, login_pod

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Drill; returns 0 where every scenario passed."""
    options = _parser().parse_args(arguments)
    try:
        chosen = _chosen(options)
        given: Mapping[str, Any] = json.load(sys.stdin)
        return _drill(options, chosen, given)
    except (SiteError, RoomError, CrusoeError) as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("Stopped by you; what the drill did has been taken back.")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make drill", description="Lets a node fail under the reference job.")
    parser.add_argument("--stack", required=True)
    parser.add_argument("--kubectl", required=True, help="the kubectl to use")
    parser.add_argument("--folder", required=True, type=Path, help="where reports and what is under way are kept")
    parser.add_argument("--local-state", type=Path, help="state folder of the local cloud that the stack is on")
    parser.add_argument("--scenario", default=SCENARIOS[0].name, help=", ".join(BY_NAME))
    parser.add_argument("--all", action="store_true", help="every scenario, one after the other")
    parser.add_argument(
        "--times", type=_count, default=1, help="so many times, up to the first that does not pass, whose report stays"
    )
    parser.add_argument("--user", default="user", help="who submits; no administrator")
    parser.add_argument("--confirm", default="", help="the stack's name again, where it is a real one")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} times is none")
    return number


def _chosen(options: argparse.Namespace) -> Sequence[Scenario]:
    if options.local_state is None and options.confirm != options.stack:
        raise RoomError(
            f"The stack {options.stack} is real: a drill takes a node away from it. If that is what you want, run "
            f"`make drill STACK={options.stack} CONFIRM={options.stack}`."
        )
    if options.all:
        return [each for each in SCENARIOS if options.local_state is not None or each.only == "any"]
    if options.local_state is None and BY_NAME.get(options.scenario, SCENARIOS[0]).only == "local":
        possible = ", ".join(each.name for each in SCENARIOS if each.only == "any")
        raise RoomError(f"Only the local cloud can do {options.scenario}; on real machines SCENARIO is {possible}.")
    if options.scenario not in BY_NAME:
        raise RoomError(f"There is no scenario {options.scenario!r}; SCENARIO is one of {', '.join(BY_NAME)}.")
    return [BY_NAME[options.scenario]]


def _drill(options: argparse.Namespace, chosen: Sequence[Scenario], given: Mapping[str, Any]) -> int:
    outputs: Mapping[str, Any] = given["outputs"]
    if not PROGRAM.is_dir():
        raise RoomError(f"The training program is missing: {PROGRAM} is no folder of this clone.")
    slurm: Mapping[str, Any] = outputs.get("slurm") or {}
    if slurm.get("mode") != "slinky":
        raise RoomError(
            f"The stack {options.stack} has no Slurm of its own that could be drilled; `make up` with `platform.slurm`."
        )
    room = Room(options.folder)
    left = room.enter(outputs["kubeconfig"])
    bench: conduct.Bench | None = None
    try:
        bench = _bench(options, room, given)
        if left:
            _say(f"An earlier drill was killed; taking back what it left ({len(left)} deeds)")
            _recover(bench)
        return _scenarios(bench, [*chosen] * options.times, to_the_first_failure=options.times > 1)
    finally:
        # Without a bench nothing was done yet; what an earlier drill left stays written down for the next.
        if bench is not None:
            room.leave(bench.take_back)
        elif not left:
            room.leave(lambda _: None)


def _bench(options: argparse.Namespace, room: Room, given: Mapping[str, Any]) -> conduct.Bench:
    outputs: Mapping[str, Any] = given["outputs"]
    settings: Mapping[str, Any] = given["settings"]
    prod: Mapping[str, Any] = given.get("prod") or {}
    site = Site(options.kubectl, room.kubeconfig, options.user, login_pod(options.kubectl, room.kubeconfig))
    local = LocalCloud(options.local_state) if options.local_state is not None else None
    client = _client(settings)
    hands = Hands(site, room, lambda _: None, _say, outputs["clusterId"], local, client)
    bench = conduct.Bench(options.stack, site, room, outputs["clusterId"], settings, client, hands, _say)
    return replace(bench, prod=prod, previewer=refusal.from_given(given))


def _recover(bench: conduct.Bench) -> None:
    bench.room.take_back(bench.take_back)
    if not conduct.healthy(bench):
        raise SiteError("The stack did not recover from an earlier drill; `make check` says what is wrong.")


def _scenarios(bench: conduct.Bench, chosen: Sequence[Scenario], *, to_the_first_failure: bool) -> int:
    bench.digest = bench.job.prepare()
    reference = conduct.undisturbed(bench) if any(each.trains for each in chosen) else []
    passed = 0
    for number, scenario in enumerate(chosen, 1):
        _say(f"Scenario {scenario.name}: {scenario.what}")
        found = conduct.drill(bench, conduct.on(bench, scenario), reference)
        passed += _told(found, bench.room.report_folder(scenario.name), bench)
        bench.room.take_back(bench.take_back)
        if to_the_first_failure and passed < number:
            break
        if number < len(chosen) and not conduct.healthy(bench):
            raise SiteError("Not every worker takes jobs again, so no more is drilled; `make check` says more.")
    if len(chosen) > 1:
        _say(f"{passed} of {len(chosen)} drills passed.")
    return 0 if passed == len(chosen) else 1


def _told(found: report.Report, folder: Path, bench: conduct.Bench) -> bool:
    write(folder / "observations.jsonl", bench.notebook.all)
    (folder / "report.json").write_text(json.dumps(report.as_json(found), indent=2), encoding="utf-8")
    (folder / "report.txt").write_text(report.text(found) + "\n", encoding="utf-8")
    page = picture.save(found, folder)
    print(report.text(found), flush=True)
    _say(f"The report is in {page}")
    return found.verdict.passed


def _client(settings: Mapping[str, Any]) -> Client:
    cloud: Mapping[str, str] = settings.get("cloud") or {}
    try:
        return connect(cloud["endpoint"], cloud.get("project"))
    except (CrusoeError, KeyError) as error:
        raise SiteError(f"The API does not answer: {error}") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # What a drill did has to be taken back, also where a script runs it in the background, which has Ctrl-C ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
