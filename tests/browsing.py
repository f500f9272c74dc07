"""A real browser for tests, and what a test asks of any page that it shows."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from playwright.sync_api import Browser, Page, sync_playwright

from tools.browser import browser

SECONDS = 30.0
"""How long a page may take for anything: cores may be busy with other tests."""

_CONTRAST = """() => {
  const rgb = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const light = ([r, g, b]) => {
    const part = (value) => {
      const c = value / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(rgb(style.color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${element.className || element.tagName} ${ratio.toFixed(2)}: ${element.textContent}`);
  }
  return found;
}"""

_NAMELESS = """() => [...document.querySelectorAll("a, button, select, summary, [role=region], [role=img]")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !each.getAttribute("aria-label") && !each.textContent.trim() && !each.labels?.length)
  .map((each) => each.outerHTML)"""

_TINY = """() => [...document.querySelectorAll("main a, button, select, summary")]
  .filter((each) => each.checkVisibility())
  .filter((each) => each.getBoundingClientRect().height < 24 && getComputedStyle(each).display !== "inline")
  .map((each) => each.outerHTML)"""


@contextmanager
def chromium() -> Generator[Browser]:
    """The browser. Raises ToolMissingError where there is none."""
    path = str(browser())
    # Its profile lies where the pinned one can see it too.
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=["--disable-dev-shm-usage"],
            env=cast("dict[str, str | float | bool]", {**os.environ, "TMPDIR": "/tmp"}),
            timeout=SECONDS * 1000,
        )
        try:
            yield started
        finally:
            started.close()


@contextmanager
def page(
    started: Browser, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True
) -> Generator[Page]:
    """A page of a size; a mistake of its script, or a request to anybody else than this machine, fails the test."""
    context = started.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
        reduced_motion="reduce",
    )
    context.set_default_timeout(SECONDS * 1000)
    wrong: list[str] = []
    opened = context.new_page()
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("request", lambda asked: None if "//127.0.0.1:" in asked.url else wrong.append(asked.url))
    try:
        yield opened
    finally:
        context.close()
    assert wrong == []


def faults(shown: Page) -> Sequence[str]:
    """What is wrong with a page for somebody who sees little, can't use a mouse, or has a phone."""
    width = shown.viewport_size["width"] if shown.viewport_size else 0
    found: list[Any] = [f"contrast of {each}" for each in shown.evaluate(_CONTRAST)]
    found += [f"no name: {each}" for each in shown.evaluate(_NAMELESS)]
    found += [f"too small to touch: {each}" for each in shown.evaluate(_TINY)]
    wide = shown.evaluate("document.documentElement.scrollWidth")
    return [*found, *([f"scrolls sideways: {wide} of {width}"] if wide > width else [])]
