"""A picture of what a stack declares, as SVG: a card for each part of the platform, a square for each host of a pool.

Drawn from a preview alone, in plain SVG without scripts, fonts or other files, so that it shows wherever images do. Its
colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from crusoe import catalog
from crusoe.rules.values import items, table, text, whole
from gitops.changes import Resource
from gitops.gpus import KINDS as POOLS
from gitops.gpus import vms
from gitops.model import Op, Range
from gitops.parts import order as part_order
from gitops.redaction import UNKNOWN, is_unknown

WIDTH = 960
_MARGIN, _GAP, _PAD = 24, 16, 14
_LINE, _TITLE = 19, 26
_CHARACTER = 6.6
"""Pixels of a character at 12 px, a little more than fonts take on average."""
_COLUMNS = 3
_SQUARE, _BETWEEN = 11, 4
_MOST_SQUARES = 96
_MOST_LINES = 14

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = """
  .page { fill: #ffffff; }
  .card { fill: #f6f8fa; stroke: #d0d7de; }
  .title { fill: #1f2328; font-weight: 600; font-size: 14px; }
  .head { fill: #1f2328; font-weight: 600; font-size: 18px; }
  .text { fill: #1f2328; font-size: 12px; }
  .soft { fill: #59636e; font-size: 12px; }
  .gpu { fill: #2da44e; }
  .cpu { fill: #8c959f; }
  .spare { fill: none; stroke: #2da44e; }
  text { font-family: -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; }
    .card { fill: #161b22; stroke: #3d444d; }
    .title, .head, .text { fill: #f0f6fc; }
    .soft { fill: #9198a1; }
    .gpu { fill: #3fb950; }
    .cpu { fill: #656c76; }
    .spare { stroke: #3fb950; }
  }
"""


@dataclass(frozen=True)
class Line:
    """One line of a card: what it says, and softly beside it what is less important."""

    text: str
    soft: str = ""


@dataclass(frozen=True)
class Card:
    """A part with its lines."""

    title: str
    lines: tuple[Line, ...]

    @property
    def height(self) -> int:
        """Pixels that it takes."""
        return 2 * _PAD + _TITLE + _LINE * len(self.lines) - 6


@dataclass(frozen=True)
class Pool:
    """A node pool: its VMs, and how many an autoscaler may add."""

    name: str
    type: str
    vms: Range
    gpus: int
    draining: bool

    @property
    def squares(self) -> int:
        """Squares that are drawn; a larger pool says its number."""
        return min(self.vms.high, _MOST_SQUARES)


def draw(project: str, stack: str, resources: Iterable[Resource]) -> str:
    """Return the SVG of what is declared: everything of the plan that is there after it."""
    declared = [each for each in resources if each.custom and each.op not in (Op.DELETE, Op.FORGET)]
    pools = [_pool(each) for each in declared if each.type in POOLS]
    rest = [each for each in declared if each.type not in POOLS and not each.type.startswith("pulumi:providers:")]
    grouped = groupby(sorted(rest, key=lambda each: part_order(each.part)), key=lambda each: each.part)
    cards = [Card(part, tuple(_lines(list(group)))) for part, group in grouped]
    head = f"{project} / {stack}"
    body: list[str] = []
    top = _MARGIN + 24
    body.append(f'<text class="head" x="{_MARGIN}" y="{top}">{_xml(_cut(head, 70))}</text>')
    top += 22
    body.append(f'<text class="soft" x="{_MARGIN}" y="{top}">{_xml(_cut(_total(declared, pools), 140))}</text>')
    top += 18
    if pools:
        drawn, top = _pools(pools, top)
        body += drawn
    drawn, top = _columns(cards, top)
    body += drawn
    height = top + _MARGIN - _GAP
    title = _xml(f"What the stack {stack} of {project} declares: {_total(declared, pools)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{_xml(head)}">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _total(declared: Sequence[Resource], pools: Sequence[Pool]) -> str:
    gpus: dict[str, Range] = {}
    for pool in pools:
        if pool.gpus:
            more = Range(low=pool.vms.low * pool.gpus, high=pool.vms.high * pool.gpus)
            gpus[pool.type] = gpus.get(pool.type, Range()) + more
    said = [f"{number} GPUs as {kind}" for kind, number in gpus.items()]
    places = sorted({place for each in declared if (place := text(each.after.get("location")))})
    return " · ".join([*places, *said, f"{len(declared)} resources"])


def _pool(resource: Resource) -> Pool:
    kind = text(resource.after.get("type")) or "unknown type"
    known = catalog.vm_type(kind)
    name = text(resource.after.get("name")) or resource.name
    drained = resource.after.get("drained") is True
    return Pool(name, kind, vms(resource.after), known.gpus if known else 0, drained)


def _lines(group: Sequence[Resource]) -> Iterable[Line]:
    """One line for each resource that a reader looks for, one for all others of a kind."""
    plain: dict[str, int] = {}
    told: list[Line] = []
    for each in sorted(group, key=lambda one: _FIRST.get(one.type, len(_FIRST))):
        kind = each.type.rpartition(":")[2]
        if line := _told(each):
            told.append(line)
        else:
            plain[kind] = plain.get(kind, 0) + 1
    counted = sorted(plain.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = told + [Line(f"{number} x {kind}" if number > 1 else kind) for kind, number in counted]
    if len(lines) <= _MOST_LINES:
        return lines
    kept = lines[: _MOST_LINES - 1]
    shown = len([line for line in kept if line in told]) + sum(number for _, number in counted[: len(kept) - len(told)])
    return [*kept, Line(f"and {len(group) - shown} more")]


_FIRST = {
    "crusoe:index:KubernetesCluster": 0,
    "crusoe:index:SlurmCluster": 0,
    "crusoe:index:VpcNetwork": 1,
    "crusoe:index:VpcSubnet": 2,
    "crusoe:index:IbPartition": 3,
    "crusoe:index:VpcFirewallRule": 4,
}
"""What comes first in a card; the rest follows as a report has it."""


def _few(value: object) -> str:
    if value == UNKNOWN or is_unknown(value):
        return "known later"
    found = [str(one) for one in items(value)]
    return ", ".join(found[:2]) + (", ..." if len(found) > 2 else "")


def _told(resource: Resource) -> Line | None:
    """What the picture says of a resource by itself."""
    after = resource.after
    name = text(after.get("name")) or resource.name
    match resource.type:
        case "crusoe:index:KubernetesCluster" | "crusoe:index:SlurmCluster":
            return Line(name, text(after.get("version")) or "")
        case "crusoe:index:VpcNetwork" | "crusoe:index:VpcSubnet":
            return Line(name, text(after.get("cidr")) or "")
        case "crusoe:index:StorageDisk":
            return Line(name, text(after.get("size")) or "")
        case "crusoe:index:IbPartition":
            return Line(name, "InfiniBand")
        case "crusoe:index:VpcFirewallRule":
            incoming = after.get("direction") == "ingress"
            ports = _few(after.get("destinationPorts")) or _few(after.get("protocols"))
            far = _few(after.get("sources" if incoming else "destinations"))
            return Line(f"{'in' if incoming else 'out'}: {ports}", f"{'from' if incoming else 'to'} {far}")
        case "crusoe:index:AutoClustersConfig":
            actions = table(after.get("remediationActions"))
            return Line(f"{len(actions)} issues are repaired", "" if actions else "all are OFF")
        case "kubernetes:helm.sh/v3:Release":
            return Line(name, f"chart {text(after.get('version')) or ''}".strip())
        case kind if kind.startswith("kubernetes:slinky.slurm.net/") and kind.endswith(":NodeSet"):
            metadata, spec = table(after.get("metadata")), table(after.get("spec"))
            count = whole(spec.get("replicas"))
            return Line(
                f"NodeSet {text(metadata.get('name')) or resource.name}", "" if count is None else f"{count} nodes"
            )
        case _:
            return None


def _pools(pools: Sequence[Pool], top: int) -> tuple[list[str], int]:
    """Draw the pools across the whole width."""
    inside = WIDTH - 2 * _MARGIN - 2 * _PAD
    per_row = (inside + _BETWEEN) // (_SQUARE + _BETWEEN)
    height = 2 * _PAD + _TITLE - 6 + sum(_pool_height(pool, per_row) for pool in pools)
    drawn = [_frame(_MARGIN, top, WIDTH - 2 * _MARGIN, height, "Node pools")]
    at = top + _PAD + _TITLE
    for pool in pools:
        drawn.append(_text("text", _MARGIN + _PAD, at + 8, pool.name))
        drawn.append(_text("soft", _MARGIN + _PAD + _width(pool.name) + 10, at + 8, _said(pool)))
        for number in range(pool.squares):
            row, column = divmod(number, per_row)
            spare = number >= pool.vms.low
            kind = "spare" if spare else "gpu" if pool.gpus else "cpu"
            x, y = _MARGIN + _PAD + column * (_SQUARE + _BETWEEN), at + 18 + row * (_SQUARE + _BETWEEN)
            drawn.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{_SQUARE}" height="{_SQUARE}" rx="2"/>')
        at += _pool_height(pool, per_row)
    return drawn, top + height + _GAP


def _pool_height(pool: Pool, per_row: int) -> int:
    rows = -(-pool.squares // per_row)
    return 18 + rows * (_SQUARE + _BETWEEN) + 12


def _said(pool: Pool) -> str:
    each = f" with {pool.gpus} GPUs" if pool.gpus else ""
    more = f", {_MOST_SQUARES} of them drawn" if pool.vms.high > _MOST_SQUARES else ""
    return f"{pool.vms} x {pool.type}{each}{more}{', being drained' if pool.draining else ''}"


def _columns(cards: Sequence[Card], top: int) -> tuple[list[str], int]:
    """Put each card into the column that is shortest so far."""
    width = (WIDTH - 2 * _MARGIN - (_COLUMNS - 1) * _GAP) // _COLUMNS
    ends = [top] * _COLUMNS
    drawn: list[str] = []
    for card in cards:
        column = ends.index(min(ends))
        x, y = _MARGIN + column * (width + _GAP), ends[column]
        drawn.append(_frame(x, y, width, card.height, card.title))
        room = int((width - 2 * _PAD) / _CHARACTER)
        for number, line in enumerate(card.lines):
            base = y + _PAD + _TITLE + 8 + number * _LINE
            soft = line.soft[: max(0, room - 8)]
            drawn.append(_text("text", x + _PAD, base, _cut(line.text, max(4, room - len(soft) - 2))))
            if soft:
                drawn.append(_text("soft", x + width - _PAD, base, soft, end=True))
        ends[column] += card.height + _GAP
    return drawn, max(ends)


def _frame(x: int, y: int, width: int, height: int, title: str) -> str:
    box = f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
    return f"{box}\n{_text('title', x + _PAD, y + _PAD + 12, title[:60])}"


def _text(kind: str, x: float, y: float, content: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{anchor}>{_xml(content)}</text>'


def _xml(content: str) -> str:
    """Text for XML, which can't hold every character that a name may."""
    return html.escape(_NOT_XML.sub("?", content))


def _width(content: str) -> float:
    return round(len(content) * _CHARACTER)


def _cut(content: str, most: int) -> str:
    return content if len(content) <= most else f"{content[: most - 1]}…"
