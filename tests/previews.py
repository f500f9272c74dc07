"""Real previews of a real stack, kept as events and as the reports on them.

`python -m tests.previews` (in a shell prepared with `eval "$(make -s env)"`) brings a stack up on a local cloud of its
own, previews one change after another, and writes anew what lies in tests/unit/gitops/previews. The integration test
does the same and compares; the unit tests read the files. What differs between two runs is evened out: ids, ports,
times.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gitops import diagram, events, markdown, plan
from gitops.model import Report
from gitops.redaction import is_unknown
from tests.harness import ROOT, Cloud, Json, Project, execute, running_cloud

KEPT = ROOT / "tests/unit/gitops/previews"
PICTURE = ROOT / "docs/prod.svg"
PROJECT, STACK = "crusoe-gpu-platform", "review"

_ID = re.compile(r"\b(?!00000000-)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")
_SERIAL = re.compile(r"\b[0-9A-F]{20}\b")
_ONE_ID = "11111111-1111-4111-8111-111111111111"
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")


@dataclass(frozen=True)
class Kept:
    """A preview's events as text, and the exit status of the CLI."""

    text: str
    status: int
    stack: str = STACK

    def report(self) -> Report:
        """The report on it."""
        preview = events.read(self.text.splitlines())
        return plan.review(preview, project=PROJECT, stack=self.stack, status=self.status).report


def streamed(project: Project, *arguments: str) -> Kept:
    """Previews a stack and returns its events, evened out."""
    environment = {
        **project.environment(),
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
        "PULUMI_SKIP_CHECKPOINTS": "true",
    }
    command = ["pulumi", "preview", "--json", "--ignore-protect", "--non-interactive", "--color=never"]
    result = execute([*command, "-s", project.stack, *arguments], project.folder, environment)
    return Kept(even(result.out), result.code, project.stack)


def even(text: str) -> str:
    """Returns events without what differs between runs, sorted where the engine's order is chance."""
    kept = [_even(json.loads(line)) for line in text.splitlines() if '"severity":"debug"' not in line]
    ended = {_step(one) for one in kept if "resOutputsEvent" in one}
    # The program's settings, and what the end of a step tells again.
    told = [one for one in kept if not (one.keys() & _NOT_KEPT or ("resourcePreEvent" in one and _step(one) in ended))]
    lines = sorted((json.dumps(one, sort_keys=True) for one in told), key=_order)
    return "".join(f"{line}\n" for line in lines)


_NOT_KEPT = {
    "preludeEvent",
    "cancelEvent",
    "policyLoadEvent",
    "policyRemediateSummaryEvent",
    "policyAnalyzeSummaryEvent",
    "policyAnalyzeStackSummaryEvent",
}


def _step(event: Json) -> tuple[str, str]:
    metadata = (event.get("resourcePreEvent") or event["resOutputsEvent"])["metadata"]
    return metadata["urn"], metadata["op"]


def _even(event: Json) -> Json:
    event = {**event, "sequence": 0, "timestamp": 0}
    if "summaryEvent" in event:
        event["summaryEvent"] = {**event["summaryEvent"], "durationSeconds": 1}
    text = json.dumps(event)
    text = re.sub(r"\|local\|[^\"]*", "|local|policies", text)
    text = _SERIAL.sub("SERIAL", text.replace(str(ROOT), "/clone"))
    held = _ID.sub(lambda match: match[0] if is_unknown(match[0]) else _ONE_ID, text)
    return json.loads(_PORT.sub("8787", held))


def _order(line: str) -> tuple[bool, str]:
    return ('"summaryEvent"' in line, line)


def scenarios(project: Project) -> Iterator[tuple[str, Kept]]:
    """Brings a stack from nothing through one change after another; gives each preview by its name."""
    project.use_settings("dev")
    yield "first", streamed(project)
    project.up()
    yield "unchanged", streamed(project)

    labels = {"team": "research"}
    project.change_settings(
        {
            "nodePools": {"train": {"count": 3, "nodeLabels": labels}},
            "autoClusters": {"actions": {"GPU_FELL_OFF_THE_BUS": "REPLACE_NODE"}},
            "network": {"ingress": [{"name": "ssh", "cidrs": ["203.0.113.0/24"], "ports": ["22"]}]},
        }
    )
    yield "growth", streamed(project)

    project.use_settings("dev", {"nodePools": {"train": {"type": "l40s-48gb.10x"}}, "storage": None})
    yield "losses", streamed(project)

    project.use_settings("dev", {"cluster": {"version": "1.33.4-cmk.73"}})
    yield "failed", streamed(project)

    project.use_settings("dev", {"protect": True})
    project.up()
    project.use_settings("dev", {"protect": True, "nodePools": {"train": None}, "storage": None})
    yield "protected", streamed(project)

    project.use_settings("dev", {"protect": True, "nodePools": {"train": {"retire": True}}})
    project.up()
    project.use_settings("dev", {"protect": True, "nodePools": {"train": None}})
    yield "retired", streamed(project)


def prod(folder: Path, cloud: Cloud) -> Kept:
    """Previews the shipped stack `prod` from nothing, with its Slurm and its shared GPUs."""
    project = Project(folder / "prod", cloud, "prod")
    project.init()
    project.use_settings("prod", slurm=True)
    return streamed(project)


def refused(folder: Path, cloud: Cloud) -> Kept:
    """Previews `prod` without protection, which this project's policies refuse."""
    project = Project(folder / "refused", cloud, "prod")
    project.init()
    project.use_settings("prod")
    return streamed(project, f"--policy-pack={ROOT / 'policies'}")


def picture(kept: Kept) -> str:
    """The picture of `prod` that README.md shows."""
    reviewed = plan.review(events.read(kept.text.splitlines()), project=PROJECT, stack="prod")
    return diagram.draw(PROJECT, "prod", reviewed.resources)


def main() -> int:
    """Records every scenario, and the picture of `prod`."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="previews-") as name, running_cloud(Path(name)) as cloud:
        project = Project(Path(name) / STACK, cloud, STACK)
        project.init()
        for scenario, kept in (*scenarios(project), ("policies", refused(Path(name), cloud))):
            (KEPT / f"{scenario}.jsonl").write_text(kept.text)
            (KEPT / f"{scenario}.md").write_text(markdown.render(kept.report()))
            print(f"{scenario}: exit {kept.status}, {kept.report().verdict.outcome}", flush=True)
        PICTURE.write_text(picture(prod(Path(name), cloud)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
