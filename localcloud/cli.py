"""The command line: `python -m localcloud up|down|status|reset|console|env|faults|log|set`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from localcloud import daemon
from localcloud.admin_client import AdminClient
from localcloud.control_plane import ControlPlane
from localcloud.state import DEFAULT_PORT, DEFAULT_STATE, Configuration, LocalCloudError, StateFolder

_NOT_RUNNING = 3
_FOLLOW_SECONDS = 0.3
# One attempt to start a control plane takes two minutes at most.
_LOOK_SECONDS = 180.0
Commands = Any  # argparse gives the type of what add_subparsers answers no public name
Answer = dict[str, Any]
_FAULT_KINDS = (
    "http-400, http-401, http-403, http-404, http-409, http-429, http-500, http-503, capacity-500, quota-400, "
    "http-500-after, slow, drop-before, drop-after, fail-operation, stall-operation, partial-capacity"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options, StateFolder(options.state))
    except LocalCloudError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m localcloud", description="A Crusoe Cloud on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = _command(commands, "up", _up, "start it, and return when it answers")
    up.add_argument("--port", type=int, help=f"port on 127.0.0.1 (default: the last one used, else {DEFAULT_PORT})")
    up.add_argument("--generation", choices=("v1", "v2", "both"), help="CMK generation of the versions on offer")
    up.add_argument("--operation-seconds", type=float, help="how long an operation takes at least; 0 for at once")
    up.add_argument(
        "--outside-vpc",
        action=argparse.BooleanOptionalAction,
        help="behave as seen from outside the VPCs: private clusters don't answer",
    )
    up.add_argument("--foreground", action="store_true", help="stay in this terminal")

    _command(commands, "down", _down, "stop it and all its clusters; everything is kept")
    status = _command(commands, "status", _status, "say whether and where it runs, and what it holds")
    status.add_argument("--json", action="store_true", help="print JSON")
    _command(commands, "reset", _reset, "stop it and remove everything, keys included")
    _command(commands, "console", _console, "print the address of its pages")
    env = _command(commands, "env", _env, "print the lines that point a Crusoe client at it")
    env.add_argument("--project", default="local", help="whose key (local or other)")

    log = _command(commands, "log", _log, "print the requests that it got")
    log.add_argument("-n", type=int, default=20, metavar="N", help="the last N (default 20)")
    log.add_argument("-f", "--follow", action="store_true", help="go on printing new ones")
    log.add_argument("--json", action="store_true", help="one JSON object per request, bodies included")

    _fault_commands(commands)
    fault = _command(commands, "gpu-fault", _gpu_fault, "break a GPU of a node, as its driver and AutoClusters see it")
    whose = fault.add_mutually_exclusive_group(required=True)
    whose.add_argument("--node", default="", help="the Kubernetes node, which bears its VM's name")
    whose.add_argument("--vm", dest="vm_id", default="", help="id of the VM")
    fault.add_argument("--xid", type=int, required=True, help="NVIDIA's error code; 79 takes the GPU away")
    fault.add_argument("--gpu", type=int, default=0, help="which GPU, from 0 (default 0)")
    incidents = _command(commands, "incidents", _incidents, "print the faults of GPUs and how far their repairs are")
    incidents.add_argument("--json", action="store_true", help="print JSON")
    _set_commands(commands)
    return parser


def _command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace, StateFolder], int], words: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=words, description=words)
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help=f"state folder (default {DEFAULT_STATE})")
    parser.set_defaults(run=run)
    return parser


def _fault_commands(commands: Commands) -> None:
    faults = commands.add_parser("faults", help="make requests fail", description="make requests fail")
    actions = faults.add_subparsers(required=True, metavar="ACTION")
    add = _command(actions, "add", _add_fault, "add a fault")
    add.add_argument(
        "--match", required=True, help="METHOD PATH, such as 'POST .../nodepools' ('...' anything, '*' a part)"
    )
    add.add_argument("--kind", required=True, help=_FAULT_KINDS)
    add.add_argument("--times", type=int, help="act on this many requests (default: on all)")
    add.add_argument("--after", type=int, default=0, help="let this many matching requests pass first")
    add.add_argument("--seconds", type=float, help="for slow and stall-operation")
    add.add_argument("--retry-after", type=int, help="Retry-After header of http-429 and http-503")
    add.add_argument("--message", help="text of the error or of the failed operation")
    add.add_argument("--vms", type=int, default=0, help="VMs that partial-capacity leaves (default 0)")
    _command(actions, "list", _list_faults, "print the faults")
    _command(actions, "clear", _clear_faults, "remove all faults and let stalled operations go on")


def _set_commands(commands: Commands) -> None:
    change = commands.add_parser(
        "set", help="change the cloud while it runs", description="change the cloud while it runs"
    )
    actions = change.add_subparsers(required=True, metavar="WHAT")
    capacity = _command(actions, "capacity", _set_capacity, "how many more VMs of a type can start")
    capacity.add_argument("--type", required=True, dest="vm_type", help="VM type")
    capacity.add_argument("--quantity", required=True, type=int, help="free VMs")
    place = capacity.add_mutually_exclusive_group(required=True)
    place.add_argument("--location", help="in a location")
    place.add_argument("--ib-network", dest="ib_network_id", help="in an InfiniBand network")
    quota = _command(actions, "quota", _set_quota, "the most that a project may use")
    quota.add_argument("--name", required=True, help="VM family or disk type")
    quota.add_argument("--max", required=True, type=int, help="slices or GiB")
    clock = _command(actions, "clock", _set_clock, "how far the cloud's clock is ahead of the machine's")
    clock.add_argument("--offset", required=True, type=float, help="seconds")
    seconds = _command(actions, "operation-seconds", _set_operation_seconds, "how long an operation takes at least")
    seconds.add_argument("seconds", type=float)
    watch = _command(
        actions, "watch-seconds", _set_watch_seconds, "how often control planes are looked at and revived; 0 for never"
    )
    watch.add_argument("seconds", type=float)
    repairs = _command(
        actions, "autoclusters", _set_autoclusters, "how long AutoClusters takes, and the webhook that it tells"
    )
    repairs.add_argument("--detect-seconds", dest="detect", type=float, help="until a fault is seen (at first 2)")
    repairs.add_argument(
        "--cordon-seconds", dest="cordon", type=float, help="from the cordon to the first eviction (at first 8)"
    )
    repairs.add_argument("--grace-seconds", dest="grace", type=float, help="how long a drain may take (at first 120)")
    repairs.add_argument("--webhook", help="http address on this machine; empty for none")
    issue = _command(
        actions, "autoclusters-issue", _set_issue, "an issue of the AutoClusters catalogue, new or changed"
    )
    issue.add_argument("--name", required=True)
    issue.add_argument("--default", required=True, choices=("REPLACE_NODE", "OFF"))


def _up(options: argparse.Namespace, folder: StateFolder) -> int:
    kept = folder.configuration()
    configuration = Configuration(
        kept.port if options.port is None else options.port,
        kept.outside_vpc if options.outside_vpc is None else options.outside_vpc,
    )
    if options.foreground:
        # Imported here: every other command does without the server's libraries.
        from localcloud.server import Options, serve

        serve(
            folder,
            configuration,
            Options(options.generation, options.operation_seconds),
            foreground=sys.stderr.isatty(),
        )
    running = folder.server()
    if running is None:
        process = daemon.start(folder, _child_arguments(options, configuration))
        print(f"The local cloud answers at {process.endpoint} (state in {folder.path}).")
        return 0
    if configuration.port not in (running.port, 0) or configuration.outside_vpc != kept.outside_vpc:
        raise LocalCloudError(f"it already runs at {running.endpoint} with other options; stop it first with 'down'")
    wanted = {"generation": options.generation, "operation_seconds": options.operation_seconds}
    changes = {key: value for key, value in wanted.items() if value is not None}
    if changes:
        AdminClient.of(folder).call("PATCH", "settings", changes)
    print(f"The local cloud already answers at {running.endpoint} (state in {folder.path}).")
    return _revive(folder)


def _revive(folder: StateFolder) -> int:
    """Have a running cloud start again at once what ended of its control planes."""
    found = AdminClient.of(folder).call("POST", "watch", seconds=_LOOK_SECONDS)["items"]
    for finding in found:
        if finding["error"] is None:
            print(f"Cluster {finding['cluster']} runs again ({', '.join(finding['ended'])} had ended).")
        else:
            print(f"error: cluster {finding['cluster']} did not come back: {finding['error']}", file=sys.stderr)
    return 1 if any(finding["error"] for finding in found) else 0


def _child_arguments(options: argparse.Namespace, configuration: Configuration) -> list[str]:
    arguments = [
        "--port",
        str(configuration.port),
        "--outside-vpc" if configuration.outside_vpc else "--no-outside-vpc",
    ]
    if options.generation is not None:
        arguments += ["--generation", options.generation]
    if options.operation_seconds is not None:
        arguments += ["--operation-seconds", str(options.operation_seconds)]
    return arguments


def _down(_options: argparse.Namespace, folder: StateFolder) -> int:
    ran = daemon.stop(folder)
    if folder.exists():
        _control_plane(folder).stop_all()
    print("The local cloud is down; its state is kept." if ran else "The local cloud was not running.")
    return 0


def _reset(_options: argparse.Namespace, folder: StateFolder) -> int:
    daemon.stop(folder)
    if folder.exists():
        _control_plane(folder).delete_all()
    daemon.wipe(folder)
    print(f"Everything in {folder.path} is gone.")
    return 0


def _control_plane(folder: StateFolder) -> ControlPlane:
    # Imported here, as in `_up`.
    from localcloud.facts import Facts
    from localcloud.keys import load_or_make
    from localcloud.server import real_control_plane

    keys = load_or_make(folder.path, Facts().projects)
    return real_control_plane(folder, keys, "")


def _status(options: argparse.Namespace, folder: StateFolder) -> int:
    running = folder.server()
    if running is None:
        print(json.dumps({"running": False}) if options.json else f"No local cloud runs for {folder.path}.")
        return _NOT_RUNNING
    found = AdminClient.of(folder).call("GET", "status")
    if options.json:
        print(json.dumps({"running": True, **found}))
        return 0
    print(f"The local cloud answers at {running.endpoint} (process {running.pid}, state in {folder.path}).")
    print(f"Its pages are at {running.console}")
    for cluster in found["clusters"]:
        print(
            f"  cluster {cluster['name']} {cluster['version']} {cluster['state']}, {cluster['node_pools']} node pools"
        )
    if found["faults"]:
        print(f"  {found['faults']} faults are set")
    return 0


def _console(_options: argparse.Namespace, folder: StateFolder) -> int:
    print(folder.running().console)
    return 0


def _env(options: argparse.Namespace, folder: StateFolder) -> int:
    if not folder.exists():
        raise LocalCloudError(f"there is no local cloud in {folder.path}; start it with 'python -m localcloud up'")
    kept = json.loads((folder.path / "keys.json").read_text(encoding="utf-8"))
    keys = {key["project"]: key for key in kept["keys"]}
    if options.project not in keys:
        raise LocalCloudError(f"there is no project {options.project!r}; known are {', '.join(keys)}")
    key = keys[options.project]
    values = {
        "CRUSOE_ACCESS_KEY_ID": key["id"],
        "CRUSOE_SECRET_KEY": key["secret"],
        "CRUSOE_API_ENDPOINT": f"http://127.0.0.1:{folder.configuration().port}/v1",
    }
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _log(options: argparse.Namespace, folder: StateFolder) -> int:
    client = AdminClient.of(folder)
    newest = _print_requests(client.call("GET", f"requests?last=true&limit={options.n}"), 0, as_json=options.json)
    while options.follow:
        time.sleep(_FOLLOW_SECONDS)
        newest = _print_requests(client.call("GET", f"requests?since={newest}"), newest, as_json=options.json)
    return 0


def _print_requests(answer: Answer, newest: int, *, as_json: bool) -> int:
    for item in answer["items"]:
        print(json.dumps(item) if as_json else _request_line(item), flush=True)
        newest = item["id"]
    return newest


def _request_line(item: Answer) -> str:
    at = datetime.fromtimestamp(item["at"]).astimezone().strftime("%H:%M:%S")
    query = f"?{item['query']}" if item["query"] else ""
    status = item["status"] or "cut"
    fault = f"  [{item['fault']}]" if item["fault"] else ""
    return f"{at} {status} {item['method']:6} {item['path']}{query} {item['milliseconds']:.0f} ms{fault}"


def _add_fault(options: argparse.Namespace, folder: StateFolder) -> int:
    keys = ("match", "kind", "times", "after", "seconds", "retry_after", "message", "vms")
    body = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    found = AdminClient.of(folder).call("POST", "faults", body)
    print(f"Fault {found['id']} is set.")
    return 0


def _list_faults(_options: argparse.Namespace, folder: StateFolder) -> int:
    for fault in AdminClient.of(folder).call("GET", "faults")["items"]:
        left = "always" if fault["remaining"] is None else f"{fault['remaining']} left"
        met = f"{fault['method']} {fault['path']}"
        print(f"{fault['id']}: {fault['kind']} on {met} ({left}, acted {fault['fired']} times)")
    return 0


def _clear_faults(_options: argparse.Namespace, folder: StateFolder) -> int:
    cleared = AdminClient.of(folder).call("DELETE", "faults")["cleared"]
    print(f"{cleared} {'fault' if cleared == 1 else 'faults'} removed.")
    return 0


def _set_capacity(options: argparse.Namespace, folder: StateFolder) -> int:
    keys = ("vm_type", "quantity", "location", "ib_network_id")
    body = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    AdminClient.of(folder).call("PUT", "capacities", body)
    print(f"{options.quantity} more VMs of {options.vm_type} can start in {options.location or options.ib_network_id}.")
    return 0


def _set_quota(options: argparse.Namespace, folder: StateFolder) -> int:
    AdminClient.of(folder).call("PUT", "quotas", {"name": options.name, "max": options.max})
    print(f"The quota {options.name} is {options.max}.")
    return 0


def _set_clock(options: argparse.Namespace, folder: StateFolder) -> int:
    AdminClient.of(folder).call("PATCH", "settings", {"clock_offset": options.offset})
    print(f"The cloud's clock is {options.offset:g} s ahead of the machine's.")
    return 0


def _set_operation_seconds(options: argparse.Namespace, folder: StateFolder) -> int:
    AdminClient.of(folder).call("PATCH", "settings", {"operation_seconds": options.seconds})
    print(f"An operation takes at least {options.seconds:g} s.")
    return 0


def _set_watch_seconds(options: argparse.Namespace, folder: StateFolder) -> int:
    AdminClient.of(folder).call("PATCH", "settings", {"watch_seconds": options.seconds})
    if options.seconds:
        print(f"Control planes are looked at every {options.seconds:g} s.")
    else:
        print("Control planes are not watched.")
    return 0


def _set_issue(options: argparse.Namespace, folder: StateFolder) -> int:
    body = {"issue_name": options.name, "default_action": options.default}
    AdminClient.of(folder).call("PUT", "autoclusters/issues", body)
    print(f"The default action on {options.name} is {options.default}.")
    return 0


def _set_autoclusters(options: argparse.Namespace, folder: StateFolder) -> int:
    keys = ("detect", "cordon", "grace", "webhook")
    body = {key: getattr(options, key) for key in keys if getattr(options, key) is not None}
    now = AdminClient.of(folder).call("PUT", "autoclusters/settings", body)
    whom = now["webhook"] or "nobody"
    print(f"AutoClusters sees a fault after {now['detect']:g} s, drains for {now['grace']:g} s and tells {whom}.")
    return 0


def _gpu_fault(options: argparse.Namespace, folder: StateFolder) -> int:
    body = {key: getattr(options, key) for key in ("node", "vm_id", "xid", "gpu")}
    found = AdminClient.of(folder).call("POST", "gpu-faults", body)
    print(f"GPU {found['gpu']} of node {found['node']} has XID {found['xid']} (incident {found['id']}).")
    return 0


def _incidents(options: argparse.Namespace, folder: StateFolder) -> int:
    for item in AdminClient.of(folder).call("GET", "incidents")["items"]:
        if options.json:
            print(json.dumps(item))
            continue
        at = datetime.fromtimestamp(item["since"]).astimezone().strftime("%H:%M:%S")
        print(f"{item['id']}: XID {item['xid']} of GPU {item['gpu']} of {item['node']}: {item['phase']} since {at}")
    return 0
