"""The report as a Markdown comment: verdict first, then what would be lost, then the changes by part of the platform.

GitHub takes comments of at most 65,536 characters. What it counts is not documented, so the bound here is in bytes of
UTF-8, of which there are never fewer. A plan that is too long is shortened from its least grave end.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gitops.model import Change, Gpus, Loss, Op, Outcome, PolicyResult, Range, Report

LIMIT = 65_000
"""Bytes of a comment, a little below GitHub's own limit."""

FOLD = 12
"""With more resources than this every part is folded."""

_VALUE = 160
_SECTION = 7_000
"""Bytes of each list before the changes."""
_REASON = 800
_MESSAGE = 600

_HEADLINES = {
    Outcome.SAFE: "✅ Safe",
    Outcome.DRIFT: "⚠️ Drift",
    Outcome.NEEDS_APPROVAL: "⚠️ Needs approval",
    Outcome.REFUSED: "⛔ Refused",
    Outcome.FAILED: "❌ The preview failed",
    Outcome.NO_STACK: "❌ No such stack",
    Outcome.NO_CREDENTIALS: "❌ No credentials",
    Outcome.OTHER_VERSION: "❌ Written by another version",
}
_SIGNS = {Op.DELETE: "-", Op.REPLACE: "!", Op.FORGET: "-", Op.UPDATE: "!", Op.CREATE: "+", Op.ADOPT: "+"}
_DONE = {
    Op.DELETE: "deleted",
    Op.REPLACE: "replaced",
    Op.FORGET: "forgotten, and kept in the cloud",
    Op.UPDATE: "updated",
    Op.CREATE: "created",
    Op.ADOPT: "adopted",
}


def marker(project: str, stack: str) -> str:
    """Return the line by which a comment is found again: one for each project and stack."""
    return f"<!-- preview of {_comment(project)}/{_comment(stack)} -->"


def _comment(name: str) -> str:
    return name.replace("--", "- -").replace(">", "")


def render(report: Report, *, more: str = "", limit: int = LIMIT) -> str:
    """Return the comment, at most `limit` bytes; `more` is the address of the whole report."""
    head = [
        marker(report.project, report.stack),
        f"## {_HEADLINES[report.verdict.outcome]}: `{_code(report.project)}/{_code(report.stack)}`",
        *_verdict(report),
    ]
    sections = [*_problems(report, "error"), *_losses(report.losses), *_gpus(report.gpus), *_repairs(report)]
    sections += [*_secrets(report)]
    sections += [*_policies(report), *_problems(report, "warning")]
    foot = _foot(report, more)
    # The head with everything that is called out is short by itself: each list in it is.
    used = _size(head) + _size(sections) + _size([foot])
    body = _changes(report, limit - used)
    return "\n\n".join([*head, *sections, *body, foot]) + "\n"


def _size(blocks: Iterable[str]) -> int:
    return sum(len(block.encode()) + 2 for block in blocks)


def _verdict(report: Report) -> Iterator[str]:
    if report.verdict.reasons:
        first, *rest = (_text(_shortened(reason, _REASON)) for reason in report.verdict.reasons)
        yield "\n".join([f"**{first}**", *rest])
    if report.verdict.label:
        label = f"`{report.verdict.label}`"
        yield f"To approve exactly this, put the label {label} on the pull request. Another plan has another label."
    if report.verdict.exit_code < 20:
        yield f"{_counted(report)}."


def _counted(report: Report) -> str:
    counts = report.counts
    said = [
        f"{counts[op]} {_DONE[op]}"
        for op in (Op.CREATE, Op.ADOPT, Op.UPDATE, Op.REPLACE, Op.DELETE, Op.FORGET)
        if counts.get(op)
    ]
    same = counts.get(Op.SAME, 0)
    if not said:
        return f"Nothing changes; {same} resources stay as they are" if same else "Nothing changes"
    return f"Resources: {', '.join(said)}{f'; {same} stay as they are' if same else ''}"


def _losses(losses: Sequence[Loss]) -> Iterator[str]:
    if not losses:
        return
    lines: list[str] = []
    for loss in losses:
        if loss.blocked:
            state = "⛔ protected, `up` will refuse it."
        elif loss.approved_by:
            state = f"✅ approved by {_text(loss.approved_by)}."
        else:
            state = "⚠️"
        lines.append(
            f"- {state} The {loss.what} {_inline(loss.name)} is {_DONE[loss.op]}: {_text(loss.lost)}."
            + ("" if loss.approved_by else f" Way: {loss.approve}.")
        )
    yield _listed(["### What would be lost", ""], lines)


def _gpus(gpus: Sequence[Gpus]) -> Iterator[str]:
    if not gpus:
        return
    head = ["### GPUs", "", "| VM type | GPUs now | then | change | hosts | pools |", "|---|---:|---:|---:|---|---|"]
    lines: list[str] = []
    for each in gpus:
        now, then = each.gpus_before, each.gpus_after
        known = now is not None and then is not None
        what = "hosts" if each.whole_host else "slices of hosts" if known else "VMs of an unknown type"
        count = f"{each.vms_before} → {each.vms_after} {what} ({_change(each.vms_before, each.vms_after)})"
        cells = (str(now), str(then), _change(now, then)) if now is not None and then is not None else ("?", "?", "?")
        pools = ", ".join(_inline(name) for name in each.pools[:5])
        more = f" and {len(each.pools) - 5} more" if len(each.pools) > 5 else ""
        lines.append(f"| {_inline(each.type)} | {' | '.join(cells)} | {count} | {pools}{more} |")
    yield _listed(head, lines, "\nand {} more types")


def _change(before: Range, after: Range) -> str:
    low, high = after.low - before.low, after.high - before.high
    return _signed(low) if low == high else f"{_signed(low)} to {_signed(high)}"


def _signed(number: int) -> str:
    return "±0" if number == 0 else f"+{number}" if number > 0 else str(number)


def _repairs(report: Report) -> Iterator[str]:
    if not report.repairs:
        return
    lines = [f"- {_inline(one.subject)}: {one.old or 'none'} → **{one.new or 'none'}**" for one in report.repairs]
    yield _listed(["### AutoClusters actions that change", ""], lines)


def _secrets(report: Report) -> Iterator[str]:
    if not report.secrets:
        return
    lines: list[str] = []
    for one in report.secrets:
        keys = ", ".join(map(_inline, one.keys))
        moved, stay = (
            [f"{each.kind} {_inline(each.name)}" for each in one.readers if each.restarts is restarts]
            for restarts in (True, False)
        )
        told = [f"this plan changes {', '.join(moved)} too, which restarts"] if moved else []
        told += [f"{', '.join(stay)} reads it, and goes on with the old value until restarted"] if stay else []
        told = told or ["nothing in this plan reads it"]
        lines.append(f"- {_inline(f'{one.namespace}/{one.name}')}, key {keys}: {'; '.join(told)}.")
    yield _listed(["### Secrets that change", ""], lines)


def _policies(report: Report) -> Iterator[str]:
    ran = ", ".join(f"{_inline(name)} {_text(version)}".strip() for name, version in sorted(report.packs.items()))
    if not report.policies:
        if report.verdict.exit_code < 20:
            yield f"Policies: {ran} found nothing." if ran else "Policies: no policy pack ran."
        return
    lines: list[str] = []
    for one in sorted(report.policies, key=_gravity):
        sign = (
            "✅ excepted" if one.exceptions else "⛔ mandatory" if one.level == "mandatory" else f"⚠️ {_text(one.level)}"
        )
        excepted = f" ({_text('; '.join(one.exceptions))})" if one.exceptions else ""
        lines.append(f"- {sign}: {_inline(one.policy)} on {_inline(one.name)}{excepted}: {_said(one.message)}")
    yield _listed([f"### Policies ({ran})" if ran else "### Policies", ""], lines)


def _gravity(one: PolicyResult) -> tuple[int, str, str]:
    return (2 if one.exceptions else 0 if one.level == "mandatory" else 1, one.policy, one.name)


def _problems(report: Report, severity: str) -> Iterator[str]:
    found = [one for one in report.problems if one.severity == severity]
    if not found:
        return
    lines = [f"- {_inline(one.name) + ': ' if one.name else ''}{_said(one.message)}" for one in found]
    yield _listed([f"### {'Errors' if severity == 'error' else 'Warnings'}", ""], lines)


def _listed(head: Sequence[str], lines: Sequence[str], rest: str = "- and {} more") -> str:
    """A section: as many lines as may be, and how many more there are."""
    kept: list[str] = []
    room = _SECTION
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*head, *kept, *([rest.format(left)] if left else [])])


@dataclass
class _Shown:
    """One resource in the comment, long and short, as lines of a `diff` block."""

    change: Change
    long: str
    short: str


def _changes(report: Report, room: int) -> list[str]:
    """Return a block for each part, within `room` bytes: the gravest changes get their properties first."""
    if not report.changes:
        return []
    title = "### Changes" if report.verdict.exit_code < 20 else "### What was seen before it failed"
    parts = [
        (part, [_Shown(one, _long(one), _short(one)) for one in group])
        for part, group in groupby(report.changes, key=lambda one: one.part)
    ]
    # What frames the parts, and the lines on what is left out.
    room -= _size([title]) + 300
    framed: list[tuple[str, list[_Shown]]] = []
    for part, group in parts:
        frame = len(html.escape(part).encode()) + 300
        if frame > room // 2:
            break
        room -= frame
        framed.append((part, group))
    everything = [one for _, group in framed for one in group]
    everything.sort(key=lambda one: _ORDER.index(one.change.op))
    text: dict[int, str] = {}
    for one in everything:
        size = len(one.short.encode()) + 1
        if size > room:
            continue
        text[id(one)] = one.short
        room -= size
    for one in everything:
        extra = len(one.long.encode()) - len(one.short.encode())
        if id(one) in text and extra <= room:
            text[id(one)] = one.long
            room -= extra
    is_long = len(everything) > FOLD
    blocks = [title]
    for part, group in framed:
        lines = [text[id(one)] for one in group if id(one) in text]
        left_out = len(group) - len(lines)
        if left_out:
            lines.append(f"# and {left_out} more")
        blocks.append(_folded(part, [one.change for one in group], lines, opened=not is_long))
    short = len(report.changes) - sum(1 for one in everything if text.get(id(one)) == one.long)
    if short:
        blocks.append(f"{short} of {len(report.changes)} resources are shortened or left out here.")
    return blocks


_ORDER = list(Op)


def _folded(part: str, group: Sequence[Change], lines: Sequence[str], *, opened: bool) -> str:
    counted = ", ".join(
        f"{sum(one.op is op for one in group)} {_DONE[op]}" for op in _ORDER if any(one.op is op for one in group)
    )
    body = "\n".join(lines)
    return (
        f"<details{' open' if opened else ''}><summary><b>{html.escape(part)}</b>: {counted}</summary>\n\n"
        f"```diff\n{body}\n```\n\n</details>"
    )


def _short(change: Change) -> str:
    held = " (protected)" if change.protected else ""
    return _line(f"{_SIGNS[change.op]} {_DONE[change.op]}: {change.name}  [{change.type}]{held}")


def _long(change: Change) -> str:
    lines = [_short(change)]
    for one in change.properties:
        why = "  # forces the replacement" if one.replaces else ""
        if one.old is not None:
            lines.append(_line(f"-   {one.path}: {_cut(one.old)}{why}"))
        if one.new is not None:
            lines.append(_line(f"+   {one.path}: {_cut(one.new)}{'' if one.old is not None else why}"))
    return "\n".join(lines)


def _foot(report: Report, more: str) -> str:
    whole = f"[The whole report]({more})" if more else "The whole report is in its JSON file"
    return f"<sub>{whole}. `[secret]`: hidden. `[unknown]`: known once it is made. Preview: {report.seconds} s.</sub>"


def _cut(value: str) -> str:
    value = value.replace("[unknown]", "[unknown until it is made]") if value == "[unknown]" else value
    return value if len(value) <= _VALUE else f"{value[:_VALUE]}… ({len(value):,} characters)"


def _line(text: str) -> str:
    """One line of a `diff` block: whatever a name holds, it neither ends the line nor the block."""
    return " ".join(text.splitlines())


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _inline(text: str) -> str:
    """Text as code, also in a table."""
    return f"`{_code(text[:200]).replace('|', chr(92) + '|')}`"


def _said(message: str) -> str:
    """A message in a list: on one line, as code, since it may hold anything."""
    line = " ".join(message.split())
    return _inline_long(_shortened(line, _MESSAGE))


def _inline_long(text: str) -> str:
    return (
        f"<code>{html.escape(text, quote=False)}</code>".replace("@", "&#64;")
        .replace("*", "&#42;")
        .replace("_", "&#95;")
    )


def _text(text: str) -> str:
    """Text of our own with names in it: nothing in it is a tag, a mention or a heading."""
    return html.escape(" ".join(text.split()), quote=False).replace("@", "&#64;")
