"""The console's pages in a real browser, on a made-up cloud."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from localcloud.autoclusters import incidents
from localcloud.console.sights import News, PodSight
from tests.browsing import faults, page
from tests.town import H100, L40S, Town, inhabited, town

pytestmark = pytest.mark.integration
PHONE: dict[str, Any] = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("town")


@pytest.fixture
def made(folder: Path) -> Generator[Town]:
    """A cloud of the test alone."""
    with town(folder) as started:
        yield started


def cell(name: str) -> str:
    return f"#n-{name}"


def live(shown: Page, address: str) -> None:
    shown.goto(address)
    expect(shown.locator("#live")).to_have_class("on")


def broken(made: Town, node: str) -> None:
    """A repair in its middle, and its fault as it is seen."""
    incident = made.breaks(node)
    for phase in ("failed", "detected", "isolated"):
        incident = made.advances(incident, phase)
    made.node(node, lost=frozenset({3}), cordoned=True, unhealthy="XID_79")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [{}, PHONE], ids=["desk", "phone"])
def test_every_page_is_readable_and_usable_by_day_and_night_at_a_desk_and_on_a_phone(
    made: Town, browser: Browser, size: dict[str, Any], dark: bool
) -> None:
    names = inhabited(made)
    broken(made, names[3])
    made.node(names[4], ready=False)
    made.node(names[9], power=False)
    with page(browser, dark=dark, **size) as shown:
        for path in ("", f"nodes/{names[3]}", f"nodes/{names[0]}/confirm?deed=gpu-fault&xid=79&gpu=3"):
            shown.goto(made.url + path)
            shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            assert faults(shown) == [], path


def test_a_page_follows_what_is_seen_without_losing_where_its_reader_is(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser) as shown:
        live(shown, made.url)
        shown.evaluate("window.mark = 'the same page'")
        shown.locator("#legend-details summary").click()
        shown.locator(cell(names[6])).focus()
        expect(shown.get_by_role("status")).to_have_text("Attention")
        made.node(names[7], cordoned=True)
        expect(shown.locator(cell(names[7]))).to_have_attribute("aria-label", f"{names[7]}: closed, 8 out of service")
        expect(shown.locator(cell(names[6]))).to_be_focused()
        expect(shown.locator("#legend-details dl").first).to_be_visible()
        assert shown.evaluate("window.mark") == "the same page"


def test_a_repair_is_told_step_by_step_as_it_goes(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser) as shown:
        live(shown, made.url)
        incident = made.breaks(names[0])
        now = shown.locator("#repairs-now .now")
        expect(now).to_contain_text("The fault was asked for.")
        incident = made.advances(incident, "detected", "issue_detected")
        expect(now).to_contain_text("The fault is seen, and told.")
        expect(shown.locator("#notices")).to_contain_text("issue detected, XID_79")
        incident = made.advances(incident, "isolated", "remediation_started")
        made.see(
            lambda seen: seen, [News(incident.since + 0.1, made.cluster_id, "slurm", "train-0 is drained: actor.")]
        )
        expect(shown.locator("#repairs-now")).to_contain_text("train-0 is drained: actor.")
        expect(shown.locator(cell(names[0]))).to_have_class("cell s-repair look")
        expect(shown.get_by_role("status")).to_have_text("Healing")
        made.advances(incident, "replaced", "remediation_succeeded")
        expect(shown.locator("#repairs-now")).to_have_count(0)
        expect(shown.locator("#repairs")).to_contain_text("The machine is replaced.")


def test_a_gpu_is_broken_only_after_a_yes(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser) as shown:
        live(shown, f"{made.url}nodes/{names[0]}")
        shown.get_by_label("GPU", exact=True).select_option("5")
        shown.get_by_role("button", name="Break it…").click()
        expect(shown.get_by_role("heading")).to_have_text(f"Break GPU 5 of {names[0]}?")
        shown.get_by_role("link", name="No, go back").click()
        assert made.do(lambda: incidents.every(made.cloud)) == []
        shown.get_by_label("GPU", exact=True).select_option("5")
        shown.get_by_label("Error", exact=True).select_option("48")
        shown.get_by_role("button", name="Break it…").click()
        shown.get_by_role("button", name="Yes, break GPU 5").click()
        expect(shown.locator(".repair h3")).to_contain_text("XID_48 on GPU 5")
        (found,) = made.do(lambda: incidents.every(made.cloud))
        assert (found.node, found.xid, found.gpu) == (names[0], 48, 5)


def test_without_a_script_everything_can_be_read_and_done(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser, script=False) as shown:
        shown.goto(made.url)
        expect(shown.locator("h1")).to_contain_text("Attention")
        expect(shown.locator(cell(names[0]))).to_be_visible()
        shown.locator(cell(names[0])).click()
        shown.locator("#break").click()
        shown.locator("#agree").click()
        expect(shown.locator(".repair h3")).to_contain_text("XID_79 on GPU 0")
        made.node(names[0], cordoned=True, unhealthy="XID_79")
        # It reloads itself.
        expect(shown.locator("#facts")).to_contain_text("XID_79")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser) as shown:
        live(shown, made.url)
        shown.keyboard.press("Tab")
        expect(shown.get_by_role("link", name="To the content")).to_be_focused()
        reached: set[str] = set()
        for _ in range(60):
            shown.keyboard.press("Tab")
            at = shown.evaluate(
                "() => { const at = document.activeElement; const style = getComputedStyle(at);"
                "return [at.id, at.tagName, style.outlineStyle, parseFloat(style.outlineWidth)] }"
            )
            if at[1] == "BODY":
                break
            assert at[2] != "none", at
            assert at[3] >= 2, at
            reached.add(at[0])
        assert {f"n-{name}" for name in names} <= reached


def test_a_cloud_that_ends_is_told_and_one_that_comes_back_is_followed_again(folder: Path, browser: Browser) -> None:
    with page(browser) as shown:
        with town(folder) as first:
            inhabited(first)
            live(shown, first.url)
        expect(shown.locator("#live")).to_have_text("Not live: the local cloud does not answer.")
        with town(folder, port=first.port) as second:
            names = inhabited(second)
            expect(shown.locator("#live")).to_have_text("Live")
            expect(shown.locator(cell(names[0]))).to_be_visible()
        shown.close()


def test_a_page_that_is_asked_for_and_never_answered_is_asked_for_again(made: Town, browser: Browser) -> None:
    names = inhabited(made)
    with page(browser) as shown:
        live(shown, made.url)
        shown.evaluate(
            "() => { const real = window.fetch; window.asked = 0; window.fetch = (address, options) => {"
            "window.asked += 1; if (window.asked > 1) return real(address, options);"
            "return new Promise((_, refuse) => options.signal.addEventListener('abort', () => refuse('aborted'))) } }"
        )
        made.node(names[7], cordoned=True)
        expect(shown.locator("#live")).to_have_text("Not live: the local cloud does not answer.")
        expect(shown.locator(cell(names[7]))).to_have_class("cell s-closed look")
        expect(shown.locator("#live")).to_have_text("Live")


def test_a_thousand_nodes_are_shown_and_followed(made: Town, browser: Browser) -> None:
    names = made.settle(counts={"train": (H100, 900), "serve": (L40S, 100)})
    made.pods(*(PodSight("slurm", f"w-{at}", name, 8, worker=f"w-{at}") for at, name in enumerate(names[:850])))
    made.node(names[500], ready=False)
    with page(browser, **PHONE) as shown:
        live(shown, made.url)
        assert shown.locator(".cell").count() == 1000
        expect(shown.locator("#troubles tbody tr")).to_have_count(1)
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
        made.node(names[999], cordoned=True)
        expect(shown.locator(cell(names[999]))).to_have_class("cell s-closed look")
        expect(shown.locator("#gpus")).to_contain_text("6800 training")
