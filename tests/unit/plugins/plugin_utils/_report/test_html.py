# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page is one file that needs nothing else, and that no text of a node can break out of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from stand_ins.health_results import TIME, azure_id, cluster, reading, suspect

from ansible_collections.hpcai.azure.plugins.plugin_utils._report.commands import DOCUMENTATION, PORTAL
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.html import as_data, page
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare

EVIL = "</script><script>document.title='evil'</script><img src=x onerror=\"alert('1')\">@@PROGRAM@@\u2028&amp;<!--"


def report(count: int = 8) -> dict[str, Any]:
    """The report on a played cluster."""
    asked = [
        NodeResult(one["host"], one["result"], {**one["inventory"], "azure_id": azure_id(one["host"])})
        for one in cluster(count)
    ]
    return compare(gather(asked, tier="deep", time=TIME, cluster="trainer"))


def evil_report(words: str = EVIL) -> dict[str, Any]:
    """A report in which all that a node can say is evil.

    :param words: what they say instead.
    """
    keys = ("summary", "hint", "device", "action", "fault", "cause")
    finding = {"verdict": "fail", **dict.fromkeys(keys, words)}
    readings = [reading(words, 1.0, words, words), reading(words, words)]
    check: dict[str, Any] = {"name": words, "limit": words, "findings": [finding], "readings": readings, **finding}
    node = dict.fromkeys(("name", "vm_id", "vm_size", "host", "boot_id", "image", "collection"), words)
    document = {"schema": 1, "tier": "deep", "time": words, "verdict": "fail", "node": node, "checks": [check] * 9}
    asked = [NodeResult(f"{words}{number}", {"health": document}, {"azure_id": words}) for number in range(12)]
    asked.append(NodeResult("silent", {"unreachable": True, "msg": words}))
    made = compare(gather(asked, tier="deep", time=words, cluster=words, limit=words, collection=words))
    outlier = {"node": f"{words}0", "reading": words, "unit": words, "vm_size": words, "device": words}
    made["outliers"] = [{**outlier, "value": 1.0, "usual": 1.0, "why": words}]
    return {**made, "suspects": [suspect(f"{words}0", words)]}


class Parts(HTMLParser):
    """What an HTML parser finds: elements, and what scripts and styles hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and data.strip():
            self.inside.append((self.tags[-1][0], data))


def attributes(parts: Parts, tag: str) -> list[dict[str, str | None]]:
    """The attributes of all elements of a kind."""
    return [attrs for name, attrs in parts.tags if name == tag]


def test_asks_for_nothing_from_anywhere() -> None:
    parts = Parts(page(report()))
    asking = [(tag, name) for tag, attrs in parts.tags for name in attrs if name in ("src", "href", "srcset", "data")]
    # A link asks for nothing before somebody follows it.
    assert {*asking} == {("a", "href")}
    assert not attributes(parts, "link")
    style = next(data for tag, data in parts.inside if tag == "style")
    assert not re.search(r"url\(|@import|@font-face", style)


def test_lets_no_program_run_but_its_own() -> None:
    text = page(report())
    parts = Parts(text)
    policy = next(attrs["content"] for attrs in attributes(parts, "meta") if attrs.get("http-equiv"))
    assert policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, start in (("script", "<script>"), ("style", "<style>")):
        content = text.rpartition(start)[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_links_lead_only_to_the_portal_and_the_documentation() -> None:
    links = attributes(Parts(page(report())), "a")
    assert {str(link["href"]).startswith((PORTAL, DOCUMENTATION)) for link in links} == {True}
    assert {(link["rel"], link["target"]) for link in links} == {("noopener noreferrer", "_blank")}
    # The names of checks, and what a node calls itself, make no link.
    assert attributes(Parts(page(evil_report())), "a") == []


def test_nothing_that_a_node_says_becomes_an_element() -> None:
    evil, good = Parts(page(evil_report())), Parts(page(evil_report("plain words")))
    assert [(tag, [*attrs]) for tag, attrs in evil.tags] == [(tag, [*attrs]) for tag, attrs in good.tags]
    assert len(evil.tags) > 300
    data = json.loads(evil.inside[-2][1])
    assert EVIL in data["texts"]
    assert evil.inside[-1] == good.inside[-1]


@pytest.mark.parametrize("policy_of", [report, evil_report])
def test_no_attribute_is_a_program_or_a_style(policy_of: Any) -> None:
    names = {name for _tag, attrs in Parts(page(policy_of())).tags for name in attrs}
    assert not {name for name in names if name.startswith("on") or name in ("style", "srcdoc", "action", "formaction")}


def test_the_title_is_escaped() -> None:
    head = page(evil_report()).partition("<style>")[0]
    assert "&lt;/script&gt;" in head
    assert "<script" not in head


def test_the_data_say_all_that_the_report_says() -> None:
    full = report()
    data = json.loads(Parts(page(full)).inside[-2][1])
    assert len(data["nodes"]) == 8
    assert [data["texts"][node[0]] for node in data["nodes"]] == [f"compute-{number}" for number in range(8)]
    readings = sum(len(check["readings"]) for node in full["nodes"] for check in node["checks"])
    assert readings
    assert sum(len(check[11]) for node in data["nodes"] for check in node[-1]) == readings
    assert len(data["outliers"]) == len(full["outliers"])


def test_the_data_say_which_hosts_were_bad_before() -> None:
    data = json.loads(Parts(page({**report(), "suspects": [suspect("compute-3")]})).inside[-2][1])
    texts = data["texts"]
    ((node, host, faults),) = data["suspects"]
    assert (texts[data["nodes"][node][0]], texts[host]) == ("compute-3", "7 of 8 GPUs")
    assert [texts[fault[0]] for fault in faults] == ["gpu_xid", "gpu_count"], "the latest first"
    assert [texts[number] for number in faults[0]][1:4] == ["NHC2009", "0003:00:00.0", "7 of 8 GPUs"]
    assert [texts[number] for number in faults[0]][5:] == ["2026-10-01T00:00:00Z", "2026-11-20T00:00:00Z"]
    assert json.loads(Parts(page(report())).inside[-2][1])["suspects"] == []


def test_texts_are_carried_once() -> None:
    few, many = len(page(report(8))), len(page(report(80)))
    documents = [len(json.dumps(one)) for one in cluster(80)]
    # A node more costs a fraction of what it printed.
    assert (many - few) / 72 < 0.2 * sum(documents) / len(documents)


@pytest.mark.parametrize("letter", ["<", ">", "&", "\u2028", "\u2029"])
def test_letters_that_html_or_javascript_would_read_are_escaped(letter: str) -> None:
    text = as_data([letter])
    assert letter not in text
    assert json.loads(text) == [letter]
