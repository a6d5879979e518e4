# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report's page in a browser for a reader at night: age, local time, links, names, a phone, and no script."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from browser import chromium
from browser.report_page import BUTTONS, PHONE, Pages, Show, click, pasted, report, text, texts
from stand_ins.health_results import TIME, azure_id, cluster

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.html import page

pytest_plugins = ("browser.page_fixtures",)
# A clock that a test sets forward, and the function that the page gave to a timer.
CLOCK = """
  window.ahead = 0;
  const now = Date.now;
  Date.now = () => now() + window.ahead;
  window.setInterval = (draw, every) => { window.timer = [draw, every]; };
"""


@pytest.fixture
def clock(opened: chromium.Page) -> Iterator[chromium.Page]:
    """A browser whose clock the test sets forward."""
    script = opened.send("Page.addScriptToEvaluateOnNewDocument", source=CLOCK)["identifier"]
    yield opened
    opened.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def open_made(of: chromium.Page, folder: Path, hours_ago: float) -> None:
    """Open a page of a dozen nodes that was made some time ago."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hours_ago * 3600))
    (folder / "made.html").write_text(page(report(cluster(12), made)), encoding="utf-8")
    of.open((folder / "made.html").as_uri())
    of.wait("document.documentElement.dataset.painted")


def accessible(of: chromium.Page, role: str) -> dict[str, dict[str, Any]]:
    """The names that a screen reader presents for elements of a role, with their properties."""
    found = {}
    for node in of.send("Accessibility.getFullAXTree")["nodes"]:
        if node.get("role", {}).get("value") == role and not node.get("ignored"):
            properties = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
            found[str(node.get("name", {}).get("value", ""))] = properties
    return found


def cut_texts(of: chromium.Page) -> list[str]:
    """The texts that do not fit into their elements, or that are beyond the page's right edge."""
    found = of.run(
        "[...document.querySelectorAll('body *')].filter((each) => {"
        " if (!each.checkVisibility() || each.closest('.unseen, svg, .map-frame, select, input, .tip')) return false;"
        " const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());"
        " const box = each.getBoundingClientRect();"
        " return own && (box.right > innerWidth + 1 || box.left < -1 || each.scrollWidth > each.clientWidth + 1 &&"
        " getComputedStyle(each).display !== 'inline');"
        " }).map((each) => `${each.tagName} ${each.className}: ${each.textContent}`)"
    )
    return [str(each) for each in found]


@pytest.mark.parametrize(
    ("hours", "words", "stale"),
    [
        (0.001, "less than 1 min old", False),
        (0.51, "30 min old", False),
        (3.21, "3 h 12 min old", False),
        (23.9, "23 h 54 min old", False),
        (24.1, "1 d 0 h old: nodes may have changed since, run the checks again", True),
        (51.5, "2 d 3 h old: nodes may have changed since, run the checks again", True),
        (-2.51, "2 h 30 min ahead of this computer's clock: the age is unknown", True),
    ],
)
def test_says_how_old_it_is_and_warns_after_a_day(
    opened: chromium.Page, tmp_path: Path, hours: float, words: str, stale: bool
) -> None:
    open_made(opened, tmp_path, hours)
    assert text(opened, "#age").strip() == words
    assert opened.run("document.getElementById('age').classList.contains('is-stale')") is stale
    # Not by the colour alone.
    assert opened.run("document.querySelectorAll('#age .symbol').length") == int(stale)


def test_the_age_grows_each_minute_and_when_the_reader_returns(clock: chromium.Page, tmp_path: Path) -> None:
    open_made(clock, tmp_path, 3.21)
    assert clock.run("window.timer[1]") == 60_000
    clock.run("window.ahead = 61000; window.timer[0]()")
    assert text(clock, "#age") == "3 h 13 min old"
    clock.run("window.ahead = 21 * 3600 * 1000; document.dispatchEvent(new Event('visibilitychange'))")
    assert text(clock, "#age").strip().startswith("1 d 0 h old")


@pytest.mark.parametrize(
    ("zone", "shown_time"),
    [
        ("UTC", "2026-11-22 16:40:00 UTC"),
        ("Europe/Berlin", "2026-11-22 16:40:00 UTC (17:40:00 GMT+1)"),
        ("Asia/Tokyo", "2026-11-22 16:40:00 UTC (2026-11-23 01:40:00 GMT+9)"),
    ],
)
def test_times_are_in_utc_with_the_readers_own_beside(
    opened: chromium.Page, show: Show, zone: str, shown_time: str
) -> None:
    opened.send("Emulation.setTimezoneOverride", timezoneId=zone)
    try:
        shown = show(node="compute-7")
        assert text(shown, "#made") == shown_time
        assert shown.run("document.getElementById('made').dateTime") == TIME
        assert f"{shown_time}, in " in text(shown, ".identity")
    finally:
        opened.send("Emulation.setTimezoneOverride", timezoneId="UTC")


def test_a_node_has_all_its_problems_in_one_place(show: Show) -> None:
    shown = show()
    first = texts(shown, ".node-item")[0]
    assert first.index("gpu_count") < first.index("7 of 8 GPUs") < first.index("XID 79 on 0003:00:00.0")
    click(shown, ".node-item button.shows")
    assert text(shown, "#drawer-title") == "compute-7"
    shown.press("Escape")
    click(shown, ".by-check li:nth-child(2) button")
    assert texts(shown, "#shown") == ["1 of 12 nodes"]
    assert shown.run("document.getElementById('check').value") == "gpu_xid"
    assert shown.complaints() == []


def test_links_lead_to_the_documentation_and_to_the_portal(show: Show) -> None:
    shown = show(node="compute-7")
    for place in (".node-item", "#drawer"):
        links = shown.run(
            f"[...document.querySelector('{place}').querySelectorAll('a')].map((a) => [a.textContent, a.href, a.rel])"
        )
        found = {name: (address, rel) for name, address, rel in links}
        portal, rel = found["Azure portal for compute-7"]
        assert unquote(portal) == f"https://portal.azure.com/#resource{azure_id('compute-7')}"
        guide = found["Documentation of gpu_count"][0]
        assert guide.endswith("/docs/docsite/rst/guide_health.rst#gpu-count")
        assert rel == "noopener noreferrer"


def test_a_screen_reader_has_a_name_for_each_control(show: Show) -> None:
    shown = show(view="nodes", node="compute-7")
    buttons, links = accessible(shown, "button"), accessible(shown, "link")
    assert {f"Copy {label}" for label in BUTTONS} <= buttons.keys()
    assert {"All results of compute-7", "Close", "fail compute-7"} <= buttons.keys()
    assert "" not in buttons | links
    assert {"Documentation of gpu_count", "Azure portal for compute-7"} <= links.keys()
    assert "Copy for 2 nodes that fail" in accessible(shown, "group")
    assert "Copy for 2 nodes that fail" in accessible(shown, "region")


def test_the_keyboard_copies_and_opens(show: Show) -> None:
    shown = show()
    shown.run("document.querySelector('#copy-buttons button').focus()")
    shown.press("Enter")
    shown.wait("document.getElementById('copied').textContent === 'Copied: Host list, 2 nodes'")
    assert shown.run("document.activeElement.parentElement.id") == "copy-buttons"
    assert pasted(shown) == "compute-[7,9]"
    shown.run("document.querySelector('.node-item summary').focus()")
    shown.press("Enter")
    assert shown.run("document.querySelector('.node-item').open") is False
    shown.press("Enter")
    shown.run("document.querySelector('.node-item button').focus()")
    shown.press("Enter")
    assert text(shown, "#drawer-title") == "compute-7"


def test_on_a_phone_each_node_is_a_card_of_two_lines(show: Show) -> None:
    shown = show(screen=PHONE)
    assert shown.run("document.getElementById('tab-nodes').getAttribute('aria-selected')") == "true"
    lines = (
        "(each) => { const range = document.createRange(); range.selectNodeContents(each);"
        " const tops = [...range.getClientRects()].filter((box) => box.width > 1 && box.height > 1)"
        ".map((box) => (box.top + box.bottom) / 2).sort((a, b) => a - b);"
        " return tops.filter((top, place) => !place || top - tops[place - 1] > 6).length; }"
    )
    for cards in (".nodes tbody tr", ".node-item > summary"):
        counts = shown.run(f"[...document.querySelectorAll('{cards}')].map({lines})")
        assert counts
        assert set(counts) == {2}, cards
    first = texts(shown, ".nodes tbody tr")[0].split("\n")
    assert [each.strip() for each in first if each.strip()] == ["compute-7", "fail", "gpu_count, gpu_xid"]
    assert cut_texts(shown) == []
    assert shown.run("document.scrollingElement.scrollWidth") <= PHONE[0]
    # For screen readers it is still a table.
    assert "gpu_count, gpu_xid" in accessible(shown, "cell")
    assert "Nodes" in accessible(shown, "table")


@pytest.mark.parametrize("view", ["nodes", "map", "values"])
def test_on_a_phone_no_text_is_cut(show: Show, view: str) -> None:
    shown = show(screen=PHONE, view=view, q="compute")
    shown.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert cut_texts(shown) == []
    shown = show(screen=PHONE, view=view, node="compute-7")
    assert cut_texts(shown) == []


def test_on_a_phone_the_filters_are_behind_one_button(show: Show) -> None:
    shown = show(screen=PHONE)
    seen = "document.getElementById('check').checkVisibility()"
    assert shown.run(seen) is False
    assert accessible(shown, "button")["Filters"]["expanded"] is False
    click(shown, "#filters-button")
    assert shown.run(seen) is True
    assert accessible(shown, "button")["Filters"]["expanded"] is True
    shown.run(
        "(() => { const size = document.getElementById('size'); size.value = 'Standard_ND96isr_H100_v5';"
        " size.dispatchEvent(new Event('change')); })()"
    )
    assert text(shown, "#filters-button") == "Filters (1)"
    assert text(shown, "#shown") == "3 of 12 nodes"
    assert cut_texts(shown) == []
    click(shown, "#filters-button")
    assert shown.run(seen) is False


def test_on_a_wide_screen_the_filters_need_no_button(show: Show) -> None:
    shown = show()
    assert shown.run("document.getElementById('check').checkVisibility()") is True
    assert shown.run("document.getElementById('filters-button').checkVisibility()") is False


def test_without_scripts_it_shows_verdicts_problems_and_commands(opened: chromium.Page, files: Pages) -> None:
    opened.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        opened.open(files[12].as_uri(), *PHONE)
        assert text(opened, "h1") == "2 of 12 nodes fail, 1 node gave no answer"
        rows = texts(opened, "noscript tbody tr")
        assert len(rows) == 12
        assert rows[7].split() == ["compute-7", "fail", "gpu_count,", "gpu_xid"]
        assert cut_texts(opened) == []
        assert "compute-7" in texts(opened, ".node-item")[0]
        assert "compute-[7,9]" in opened.run("document.getElementById('command-0').textContent")
        assert text(opened, "#made") == "2026-11-22 16:40:00 UTC"
        # Nothing that would do nothing.
        controls = "[...document.querySelectorAll('button, select, input')]"
        assert opened.run(f"{controls}.some((each) => each.checkVisibility())") is False
    finally:
        opened.send("Emulation.setScriptExecutionDisabled", value=False)


def test_many_failing_nodes_are_folded(opened: chromium.Page, tmp_path: Path) -> None:
    results = cluster(30)
    for one in results[:20]:
        if "health" in one["result"]:
            check = one["result"]["health"]["checks"][0]
            check.update(verdict="fail", summary="6 of 8 GPUs")
            one["result"]["health"]["verdict"] = "fail"
    made = report(results)
    (tmp_path / "many.html").write_text(page(made), encoding="utf-8")
    opened.open((tmp_path / "many.html").as_uri())
    opened.wait("document.documentElement.dataset.painted")
    bad = sum(node["state"] not in ("pass", "skip") for node in made["nodes"])
    assert text(opened, ".attention-more > summary") == f"{bad - 9} more nodes"
    assert "Physical host BN4PrdHPC0000" in text(opened, ".attention-item.is-fail")
    counts = [node["checks"][0]["verdict"] == "fail" for node in made["nodes"] if node["checks"]]
    assert texts(opened, ".by-check li")[0] == f"gpu_count fail on {sum(counts)} nodes"
    click(opened, ".by-check button")
    assert text(opened, "#shown") == f"{sum(counts)} of 30 nodes"
