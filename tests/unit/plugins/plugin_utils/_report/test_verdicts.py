# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the page that need no script."""

from __future__ import annotations

import re
from typing import Any

import pytest
from stand_ins.health_results import TIME, azure_id, cluster, suspect

from ansible_collections.hpcai.azure.plugins.plugin_utils._report import verdicts
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.gather import NodeResult, gather
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.markup import element, joined, moment
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.outliers import compare


def report(count: int = 12, wanted: str = "", **more: Any) -> dict[str, Any]:
    """The report on a played cluster, or on its nodes of one state."""
    asked = [
        NodeResult(one["host"], one["result"], {**one["inventory"], "azure_id": azure_id(one["host"])})
        for one in cluster(count)
    ]
    found = gather(asked, tier="deep", time=TIME, **more)
    hosts = [node["host_name"] for node in found["nodes"] if wanted in ("", node["state"])]
    return compare(gather([one for one in asked if one.host in hosts], tier="deep", time=TIME, **more))


def plain(html: str) -> str:
    """The text of HTML on one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def items(html: str) -> list[str]:
    """The texts of the bad nodes."""
    return [plain(f"<{part}") for part in html.split('<details class="node-item')[1:]]


def test_text_is_escaped_wherever_it_is_put() -> None:
    evil = "\"'><b>&"
    assert element("p", evil, title=evil) == (
        '<p title="&quot;&#x27;&gt;&lt;b&gt;&amp;">&quot;&#x27;&gt;&lt;b&gt;&amp;</p>'
    )
    assert joined(element("b", "x"), evil) == "<b>x</b>&quot;&#x27;&gt;&lt;b&gt;&amp;"
    assert moment(evil) == "<span>&quot;&#x27;&gt;&lt;b&gt;&amp;</span>"


def test_the_head_says_how_many_fail_and_when_that_was() -> None:
    made = report(cluster="trainer", limit="compute", collection="0.2.0")
    head = verdicts.head(made)
    assert "Cluster health · trainer · tier deep · limited to compute" in head
    assert '<h1 id="headline">2 of 12 nodes fail, 1 node gave no answer</h1>' in head
    assert f'<time datetime="{TIME}" id="made">2026-11-22 16:40:00 UTC</time>' in head
    assert f"12 nodes, {len(made['checks'])} checks, by hpcai.azure 0.2.0" in head


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("fail", "All 2 nodes fail"),
        ("unknown", "1 node could not be measured"),
        ("warn", "No node of 2 fails"),
        ("none", "No node was checked"),
    ],
)
def test_the_head_of_a_few_nodes(wanted: str, words: str) -> None:
    assert f">{words}</h1>" in verdicts.head(report(wanted=wanted))


def names(html: str) -> list[str]:
    """The names of the bad nodes, in order."""
    return re.findall(r'<span class="node-name">([^<]*)</span>', html)


def test_each_bad_node_is_there_once_with_all_its_problems() -> None:
    html = verdicts.attention(report())
    assert names(html) == [f"compute-{number}" for number in (7, 9, 6, 2, 3, 10)]
    first, *_others = items(html)
    assert first.index("gpu_count, gpu_xid") < first.index("gpu_count 7 of 8 GPUs") < first.index("gpu_xid XID 79")
    hint = "It fell off the bus: redeploy the instance, and report the host to Azure."
    assert f"{hint} Action: redeploy or replace the instance. Code: NHC2009. Documentation of gpu_count" in first
    assert "Standard_ND96isr_H100_v5 · BN4PrdHPC0003" in first
    assert "could not be reached This node gave no result: could not be reached: Failed to connect" in items(html)[2]


def test_the_worst_check_of_a_node_comes_first() -> None:
    made = report()
    made["nodes"][7]["checks"][0]["verdict"] = "warn"
    first = items(verdicts.attention(made))[0]
    assert first.index("gpu_xid XID 79") < first.index("gpu_count 7 of 8 GPUs")
    # In brief, only the checks with the node's verdict.
    assert verdicts.brief(made["nodes"][7]) == "gpu_xid"


def test_a_long_list_is_folded() -> None:
    made = report()
    made["nodes"] = [{**made["nodes"][7], "host_name": f"compute-{number}"} for number in range(14)]
    made["nodes"][0]["checks"] = [{**made["nodes"][0]["checks"][0], "name": f"check_{number}"} for number in range(9)]
    made["outliers"] = []
    html = verdicts.attention(made)
    before, after = html.split("<summary>5 more nodes</summary>")
    assert (len(items(before)), len(items(after))) == (9, 5)
    assert "check_5" in items(before)[0]
    assert "and 3 more" in items(before)[0]
    assert "gpu_count fail on 13 nodes" in plain(html)
    assert "and 3 more" in plain(html.partition("</ul>")[0])


def test_a_host_with_several_failing_nodes_is_named() -> None:
    made = report()
    made["nodes"][9]["host"] = made["nodes"][7]["host"]
    html = verdicts.attention(made)
    assert "Physical host BN4PrdHPC0003 2 nodes on it fail: the host may be faulty. " in plain(html)
    assert 'data-show="host=BN4PrdHPC0003"' in html
    assert "Physical host" not in verdicts.attention(report())


def test_outliers_are_one_item() -> None:
    made = report()
    html = plain(verdicts.attention(made))
    assert f"{len(made['outliers'])} outliers Values far from the median" in html
    one = {**made, "outliers": made["outliers"][:1]}
    assert f"1 outlier {made['outliers'][0]['why']}" in plain(verdicts.attention(one))


def test_a_healthy_cluster_has_nothing_to_do() -> None:
    made = {**report(wanted="pass"), "outliers": []}
    assert "Nothing to do All nodes answered" in plain(verdicts.attention(made))
    assert verdicts.attention({**made, "suspects": [suspect("compute-0")]}) == ""
    assert 'id="copy" aria-labelledby="copy-title" hidden=""' in verdicts.copy_panel(made)


def test_links_of_a_node_come_from_the_inventory() -> None:
    made = report()
    assert f'href="https://portal.azure.com/#resource{azure_id("compute-7")}"' in verdicts.attention(made)
    for node in made["nodes"]:
        node["azure_id"] = ""
    assert "portal.azure.com" not in verdicts.attention(made)


def test_the_commands_are_there_without_a_script() -> None:
    made = report()
    text = plain(verdicts.copy_panel(made))
    assert text.startswith("Copy for 2 nodes that fail")
    assert "Host list compute-[7,9] scontrol show scontrol show node &#x27;compute-[7,9]&#x27;" in text
    assert 'id="copy-without" class="dim" hidden=""' in verdicts.copy_panel(made)
    made["nodes"][9]["host_name"] = "$(reboot)"
    assert "1 node left out of the commands" in plain(verdicts.copy_panel(made))
    assert "reboot" not in verdicts.copy_panel(made)
    assert 'id="copy-without" class="dim">' in verdicts.copy_panel(made)
    made["nodes"][7]["host_name"] = "$(reboot)"
    assert 'id="copy-texts" hidden=""' in verdicts.copy_panel(made)


def test_the_table_without_a_script_has_all_nodes() -> None:
    # Only a phone shows the problem in brief.
    html = re.sub(r'<span class="brief">[^<]*</span>', "", verdicts.without_script(report()))
    assert html.count('<tr role="row">') == 1 + 12
    rows = [plain(row) for row in html.split('<tr role="row">')[2:]]
    assert rows[7] == (
        "compute-7 fail gpu_count: 7 of 8 GPUs: 0003:00:00.0 is not there (and 1 more) Standard_ND96isr_H100_v5 "
        "BN4PrdHPC0003"
    )
    assert rows[6].startswith("compute-6 no answer could not be reached: ")
    assert "12 nodes: 2 fail, 1 no answer, 1 unknown, 2 warn, 6 pass" in plain(html)
