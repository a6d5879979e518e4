# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report's page of a played cluster in a browser, and how tests look at it and use it."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stand_ins.health_results import TIME, azure_id, cluster

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.html import page
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare

from . import chromium

PHONE = (390, 844)
BUTTONS = ["Host list", "scontrol show", "scontrol drain", "health_check --limit", "replace", "CSV", "JSON"]
"""What can be copied."""

Show = Callable[..., chromium.Page]


class Pages(dict[int, Path]):
    """The page for each number of nodes, made when it is first used, because that takes seconds for 600."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, count: int) -> Path:
        self[count] = self.folder / f"{count}.html"
        self[count].write_text(page(report(cluster(count))), encoding="utf-8")
        return self[count]


def report(results: list[dict[str, Any]], time: str = TIME) -> dict[str, Any]:
    """The report on these results."""
    asked = [
        NodeResult(one["host"], one["result"], {**one["inventory"], "azure_id": azure_id(one["host"])})
        for one in results
    ]
    return compare(gather(asked, tier="deep", time=time, cluster="trainer"))


def text(of: chromium.Page, selector: str) -> str:
    """What an element shows."""
    return str(of.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def texts(of: chromium.Page, selector: str) -> list[str]:
    """What all elements show."""
    found = of.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((each) => each.innerText)")
    return [str(each) for each in found]


def state(of: chromium.Page) -> dict[str, str]:
    """The state in the page's address."""
    return dict(urllib.parse.parse_qsl(of.run("location.hash.slice(1)")))


def click(of: chromium.Page, selector: str) -> None:
    """Click in the middle of an element."""
    found = of.run(
        f"(() => {{ const each = document.querySelector({json.dumps(selector)});"
        " each.scrollIntoView({block: 'center'}); const box = each.getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    of.click(*found)


def pasted(of: chromium.Page) -> str:
    """Paste what was copied into a new field, and return it."""
    of.run(
        "(() => { document.getElementById('pasted')?.remove(); const area = document.createElement('textarea');"
        " area.id = 'pasted'; document.body.append(area); area.focus(); })()"
    )
    for kind in ("keyDown", "keyUp"):
        of.send("Input.dispatchKeyEvent", type=kind, key="v", code="KeyV", modifiers=2, commands=["paste"])
    return str(of.run("document.getElementById('pasted').value"))


def copied(of: chromium.Page, button: str) -> str:
    """Click a button, and return what it copied."""
    place = BUTTONS.index(button) + 1
    of.run("document.getElementById('copied').textContent = ''")
    click(of, f"#copy-buttons button:nth-child({place})")
    of.wait("document.getElementById('copied').textContent")
    return pasted(of)
