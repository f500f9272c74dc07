"""Draws the pictures of docs/console.md anew: `python -m tests.screenshots`, where there is a browser for tests."""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from localcloud.console.sights import News
from tests.browsing import chromium, page
from tests.harness import ROOT
from tests.town import Town, inhabited, town

FOLDER = ROOT / "docs" / "console"
MOST_BYTES = 150_000
_COLOURS = 256
_SHOTS = {"light": (1280, 1180, False), "dark": (1280, 1180, True), "phone": (390, 844, True)}


def prepare(made: Town) -> None:
    """A cluster at work, in the middle of a repair."""
    names = inhabited(made)
    incident = made.breaks(names[1])
    incident = made.advances(incident, "failed")
    incident = made.advances(incident, "detected", "issue_detected")
    incident = made.advances(incident, "isolated", "remediation_started")
    made.backdate(incident, 9.4, 9.2, 7.1, 6.9)
    made.node(names[1], lost=frozenset({3}), cordoned=True, unhealthy="XID_79")
    now = time.time()
    news = [
        (6.1, "slurm", "train-1 is drained: slurm-actor: XID_79."),
        (5.2, "slurm", "Job 41 (pretrain) is back in the queue, for the first time."),
        (2.3, "kubernetes", f"Worker train-1 is gone from {names[1]}."),
    ]
    made.see(lambda seen: seen, [News(now - ago, made.cluster_id, source, text) for ago, source, text in news])  # pyright: ignore[reportArgumentType]  both are sources


def shoot(browser: Browser, made: Town) -> None:
    """Write every picture, small enough for a page of documentation."""
    FOLDER.mkdir(exist_ok=True)
    for name, (width, height, dark) in _SHOTS.items():
        with page(browser, width=width, height=height, dark=dark) as shown:
            shown.goto(made.url)
            shown.locator("#live.on").wait_for()
            picture = Image.open(io.BytesIO(shown.screenshot())).convert("RGB")
        file = FOLDER / f"{name}.png"
        picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        if file.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{file} is larger than {MOST_BYTES / 1000:.0f} kB")


def main() -> int:
    """Make the town, look at it, and take it down."""
    with tempfile.TemporaryDirectory() as folder, town(Path(folder)) as made, chromium() as browser:
        prepare(made)
        shoot(browser, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
