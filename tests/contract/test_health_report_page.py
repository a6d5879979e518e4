# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report's page in a real browser: what people see, click and type there, with a dozen nodes and with 600."""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path

import pytest
from browser import chromium
from browser.report_page import Show, click, report, state, text, texts
from stand_ins.health_results import cluster, suspect

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.html import page

pytest_plugins = ("browser.page_fixtures",)
EVIL = "</script><img src=x onerror=\"document.title='evil'\"><b>'bold'</b>"
MOST_SECONDS = 10
"""Until 600 nodes can be used. It takes half a second on a quiet machine; here it may be any machine."""


def cell(of: chromium.Page, row: int, column: int) -> tuple[float, float]:
    """Where a cell of the map is on the screen, by the layout that the page says it has drawn."""
    found = of.run(
        "(() => { document.querySelector('.map-frame').scrollIntoView();"
        " const box = document.querySelector('.map-frame').getBoundingClientRect(); return [box.x, box.y]; })()"
    )
    layout = json.loads(of.run("document.querySelector('.map-frame').dataset.layout"))
    x = found[0] + layout["names"] + (column + 0.5) * layout["wide"]
    return x, found[1] + layout["head"] + (row + 0.5) * layout["high"]


def colour(of: chromium.Page, row: int, column: int) -> list[int]:
    """The colour of a cell of the map, near its left edge, beside the symbol."""
    layout = json.loads(of.run("document.querySelector('.map-frame').dataset.layout"))
    x = layout["names"] + column * layout["wide"] + 5
    y = layout["head"] + (row + 0.5) * layout["high"]
    pixel = f"[...document.querySelector('.map-frame canvas').getContext('2d').getImageData({x}, {y}, 1, 1).data]"
    return [int(part) for part in of.run(pixel)]


def test_says_first_how_many_fail_and_what_to_look_at(show: Show) -> None:
    shown = show()
    assert text(shown, "h1") == "2 of 12 nodes fail, 1 node gave no answer"
    assert [each.split() for each in texts(shown, ".tile")] == [
        ["2", "fail"],
        ["1", "no", "answer"],
        ["1", "unknown"],
        ["2", "warn"],
        ["6", "pass"],
        ["0", "skip"],
    ]
    items = texts(shown, ".node-item")
    assert items[0].startswith("compute-7")
    assert "gpu_count 7 of 8 GPUs: 0003:00:00.0 is not there" in items[0]
    assert "Action: redeploy or replace the instance. Code: NHC2009." in items[0]
    assert [item.split()[0] for item in items] == [f"compute-{number}" for number in (7, 9, 6, 2, 3, 10)]
    assert any("outliers" in each for each in texts(shown, ".attention-item"))
    assert "ib_write_bandwidth fail on 1 node" in texts(shown, ".by-check li")


def test_works_without_anything_else(show: Show) -> None:
    for view in ("map", "nodes", "values"):
        shown = show(view=view, node="compute-7")
        assert shown.complaints() == []
        assert [url for url in shown.requested() if not url.startswith(("file:", "about:"))] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_shows_each_verdict_in_its_colour(show: Show, scheme: str) -> None:
    shown = show(scheme=scheme)
    verdicts = {"fail": (0, 0), "no_answer": (2, 0), "unknown": (3, 39), "warn": (4, 7), "pass": (6, 0)}
    seen = {name: tuple(colour(shown, *place)) for name, place in verdicts.items()}
    assert len(set(seen.values())) == len(seen)
    for name, found in seen.items():
        style = f"getComputedStyle(document.documentElement).getPropertyValue('--{name}-cell').trim()"
        wanted = str(shown.run(style)).lstrip("#")
        assert [int(wanted[at : at + 2], 16) for at in (0, 2, 4)] == list(found[:3]), name


def test_hovering_a_cell_tells_node_check_and_finding(show: Show) -> None:
    shown = show()
    shown.move(*cell(shown, 0, 0))
    shown.wait("!document.getElementById('tip').hidden")
    tip = text(shown, "#tip")
    assert "compute-7 · gpu_count" in tip
    assert "7 of 8 GPUs: 0003:00:00.0 is not there" in tip


def test_a_click_on_a_cell_opens_the_node_and_escape_closes_it(show: Show) -> None:
    shown = show()
    shown.click(*cell(shown, 1, 3))
    shown.wait("!document.getElementById('drawer').hidden")
    assert text(shown, "#drawer-title") == "compute-9"
    assert state(shown) == {"node": "compute-9"}
    drawer = text(shown, "#drawer")
    for words in ("BN4PrdHPC0004", "Run it again; then replace.", "NHC2003", "171.2 Gb/s", "Outliers"):
        assert words in drawer
    shown.press("Escape")
    assert shown.run("document.getElementById('drawer').hidden") is True
    assert state(shown) == {}


def test_the_keyboard_walks_over_the_map_and_opens(show: Show) -> None:
    shown = show()
    shown.run("document.querySelector('.map-frame').focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        shown.press(key)
    assert shown.run("document.getElementById('live').textContent") == (
        "compute-9 · gpu_identity: pass PCI and NVML agree on 8 GPUs"
    )
    shown.press("Enter")
    assert text(shown, "#drawer-title") == "compute-9"
    assert shown.run("document.activeElement.id") == "drawer-title"
    shown.press("Escape")
    assert shown.run("document.activeElement.className") == "map-frame"


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        ({"q": "compute-1"}, ["compute-10", "compute-1", "compute-11"]),
        ({"q": "xid 79"}, ["compute-7"]),
        ({"q": "no route"}, ["compute-6"]),
        ({"state": "fail,unknown"}, ["compute-7", "compute-9", "compute-2"]),
        ({"check": "gpu_temperature", "state": "warn"}, ["compute-3", "compute-10"]),
        ({"size": "Standard_ND96isr_H100_v5"}, ["compute-7", "compute-3", "compute-11"]),
        ({"host": "BN4PrdHPC0001", "sort": "name"}, ["compute-2", "compute-3"]),
        ({"host": "BN4PrdHPC0001", "sort": "worst"}, ["compute-2", "compute-3"]),
        ({"sort": "odd", "q": "compute-1"}, ["compute-1", "compute-10", "compute-11"]),
        ({"q": "nothing like it"}, []),
    ],
)
def test_filters_and_sorts_by_what_the_address_says(show: Show, wanted: dict[str, str], nodes: list[str]) -> None:
    shown = show(view="nodes", **wanted)
    assert texts(shown, ".nodes tbody .chip") == nodes
    expected = f"{len(nodes)} of 12 nodes"
    assert text(shown, "#shown") == expected
    assert ("No node matches this filter." in text(shown, "main")) == (not nodes)


def test_what_is_typed_and_clicked_filters_and_stays_in_the_address(show: Show) -> None:
    shown = show(view="nodes")
    click(shown, "#q")
    shown.type("compute-1")
    shown.wait("document.getElementById('shown').textContent === '3 of 12 nodes'")
    click(shown, ".tile[data-state=warn]")
    assert texts(shown, ".nodes tbody .chip") == ["compute-10"]
    assert state(shown) == {"view": "nodes", "q": "compute-1", "state": "warn"}
    click(shown, "#reset")
    assert text(shown, "#shown") == "12 nodes"
    click(shown, "#tab-values")
    assert state(shown) == {"view": "values"}
    assert shown.run("document.getElementById('view-nodes').hidden") is True


def test_values_are_drawn_with_their_limit_and_the_odd_ones_named(show: Show) -> None:
    shown = show(view="values", check="gpu_host_bandwidth", size="Standard_ND96asr_v4")
    assert texts(shown, ".card h3") == ["gpu_host_bandwidth"]
    assert texts(shown, ".card .chip") == ["compute-1 0005:00:00.0: 22.1 GB/s", "compute-1 0006:00:00.0: 21.9 GB/s"]
    # A plot is drawn when it comes into sight.
    shown.run("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    shown.wait("document.querySelector('.plot').points?.length === 64")
    # The limit's line is dashed in the colour of a failure, and left of all values.
    points = shown.run("document.querySelector('.plot').points.map((each) => [each.node.hostName, each.value, each.x])")
    lowest = min(points, key=lambda each: each[1])
    assert lowest[:2] == ["compute-1", 21.9]
    assert lowest[2] == min(each[2] for each in points)
    box = shown.run(
        "(() => { const plot = document.querySelector('.plot'); plot.scrollIntoView({block: 'center'});"
        " const box = plot.getBoundingClientRect(); return [box.x, box.y]; })()"
    )
    shown.move(box[0] + lowest[2], box[1] + 60)
    shown.wait("!document.getElementById('tip').hidden")
    tip = text(shown, "#tip")
    assert "21.9 GB/s" in tip
    assert "compute-1 · 0006:00:00.0" in tip
    assert "modified z-score" in tip
    shown.click(box[0] + lowest[2], box[1] + 60)
    assert text(shown, "#drawer-title") == "compute-1"


def test_what_nodes_say_stays_text(opened: chromium.Page, tmp_path: Path) -> None:
    results = cluster(6)
    for one in results:
        one["host"] = f"{EVIL}{one['host']}"
        document = one["result"].get("health")
        if document is None:
            one["result"]["msg"] = EVIL
            continue
        document["node"] = dict.fromkeys(document["node"], EVIL)
        for check in document["checks"][:3]:
            check.update(dict.fromkeys(("summary", "hint", "action", "fault", "cause", "limit"), EVIL), verdict="fail")
            check["findings"] = [dict.fromkeys(("summary", "hint", "device", "verdict"), EVIL)] * 2
            check["readings"] = [{"name": EVIL, "value": value, "unit": EVIL, "device": EVIL} for value in (1, EVIL)]
        document["verdict"] = "fail"
    suspects = [suspect(results[0]["host"], EVIL)]
    (tmp_path / "evil.html").write_text(page({**report(results), "suspects": suspects}), encoding="utf-8")
    for view in ("map", "nodes", "values"):
        opened.events.clear()
        asked = urllib.parse.urlencode({"view": view, "node": results[0]["host"]})
        opened.open(f"{(tmp_path / 'evil.html').as_uri()}#{asked}")
        opened.wait("document.documentElement.dataset.painted")
        assert text(opened, "#drawer-title") == results[0]["host"]
        assert EVIL in text(opened, "#suspects")
        assert opened.run("document.querySelectorAll('img, b.bold, body > b').length") == 0
        assert opened.run("document.title").startswith("Health of trainer")
        assert opened.complaints() == []


def test_nodes_on_hosts_that_were_bad_before_have_a_section(opened: chromium.Page, tmp_path: Path) -> None:
    file = tmp_path / "suspects.html"
    made = report(cluster(12))
    file.write_text(page({**made, "suspects": [suspect("compute-4"), suspect("compute-5")]}), encoding="utf-8")
    opened.events.clear()
    opened.open(file.as_uri())
    opened.wait("document.documentElement.dataset.painted")
    assert text(opened, "#suspects h2") == "On physical hosts with earlier hardware faults"
    assert "2 nodes without a hardware fault now" in text(opened, "#suspects p")
    assert texts(opened, "#suspects .chip") == ["compute-4", "compute-5"]
    latest, older = texts(opened, "#suspects tbody tr")[:2]
    for words in ("7 of 8 GPUs", "2026-10-01 00:00:00 UTC to 2026-11-20 00:00:00 UTC", "gpu_xid: 7 of 8 GPUs (0003"):
        assert words in latest
    assert "gpu_count: 7 of 8 GPUs (0003:00:00.0, NHC2009)" in older
    click(opened, "#suspects .chip")
    assert text(opened, "#drawer-title") == "compute-4"
    assert opened.complaints() == []


def test_without_such_hosts_there_is_no_such_section(show: Show) -> None:
    assert show().run("document.getElementById('suspects').hidden") is True


def test_no_program_that_came_with_the_data_would_run(show: Show) -> None:
    shown = show()
    shown.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.bad = 1'}))")
    assert shown.run("window.bad === undefined") is True
    assert any("Content Security Policy" in words for words in shown.complaints())


def test_six_hundred_nodes_can_be_used_at_once(show: Show) -> None:
    shown = show(600)
    assert float(shown.run("document.documentElement.dataset.usable")) < MOST_SECONDS * 1000
    assert text(shown, "#shown") == "600 nodes"
    # One canvas as high as its frame, however many rows there are.
    assert shown.run("document.querySelector('.map-frame canvas').height") < 1500
    assert shown.run("document.querySelector('.map-frame').scrollHeight") > 600 * 14
    shown.run("document.querySelector('.map-frame').scrollTop = 1e6")
    shown.wait("document.querySelector('.map-frame').scrollTop > 5000")
    shown.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    # The last rows are drawn, and no row that is out of sight.
    assert 10 < int(shown.run("document.querySelector('.map-frame').dataset.rows")) < 80
    took = shown.run(
        "(() => { const from = performance.now(); for (let turn = 0; turn < 20; turn += 1) {"
        " const q = document.getElementById('q'); q.value = `compute-${turn}`;"
        " q.dispatchEvent(new Event('input')); } return (performance.now() - from) / 20; })()"
    )
    assert took < MOST_SECONDS * 100
    assert text(shown, "#shown") == "11 of 600 nodes"


def test_on_paper_the_bad_nodes_stand_in_a_table(show: Show) -> None:
    shown = show()
    shown.run("window.dispatchEvent(new Event('beforeprint'))")
    shown.send("Emulation.setEmulatedMedia", media="print")
    try:
        assert texts(shown, ".nodes tbody .chip")[:2] == ["compute-7", "compute-9"]
        assert shown.run("getComputedStyle(document.getElementById('view-map')).display") == "none"
        assert shown.run("getComputedStyle(document.getElementById('view-nodes')).display") == "block"
    finally:
        shown.send("Emulation.setEmulatedMedia", media="")
