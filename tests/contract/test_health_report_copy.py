# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the buttons of the report's page copy, read from the clipboard of a browser."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
from browser import chromium
from browser.report_page import BUTTONS, Show, click, copied, report, text, texts
from stand_ins.health_results import TIME, azure_id, cluster

from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.commands import commands_of
from ansible_collections.hpcai.azure.plugins.plugin_utils._report.html import page

pytest_plugins = ("browser.page_fixtures",)
SCRIPTS = Path(__file__).resolve().parents[2] / "plugins/plugin_utils/_report/page"


def test_the_buttons_copy_what_python_made_for_the_failing_nodes(show: Show) -> None:
    shown = show()
    made = report(cluster(12))
    failing = [node for node in made["nodes"] if node["state"] == "fail"]
    assert text(shown, "#copy-title") == "Copy for 2 nodes that fail"
    labels = [" ".join(each.split()) for each in texts(shown, "#copy-buttons button")]
    assert labels == [f"Copy {button}" for button in BUTTONS]
    for command in commands_of(made):
        assert copied(shown, command.label) == command.text(failing)
        assert text(shown, "#copied") == f"Copied: {command.label}, 2 nodes"
    assert copied(shown, "Host list") == "compute-[7,9]"
    assert copied(shown, "replace") == "ansible-playbook hpcai.azure.replace -e 'hpcai_replace=compute-[7,9]'"


def test_the_buttons_follow_the_filter(show: Show) -> None:
    shown = show(q="compute-1")
    assert text(shown, "#copy-title") == "Copy for 3 nodes that match the filter"
    assert copied(shown, "Host list") == "compute-[1,10-11]"
    limit = copied(shown, "health_check --limit")
    run = "ansible-playbook hpcai.azure.health_check -e hpcai_health_tier=deep"
    assert limit == f"{run} --limit compute-1,compute-10,compute-11"
    click(shown, "#copy-texts summary")
    assert limit in texts(shown, "#copy-texts code")
    shown = show(q="nothing like it")
    assert shown.run("document.getElementById('copy').hidden") is True


def test_copies_csv_and_json(show: Show) -> None:
    shown = show(state="fail,no_answer,unknown,warn", sort="worst")
    rows = list(csv.DictReader(io.StringIO(copied(shown, "CSV"))))
    assert [(row["node"], row["check"]) for row in rows[:4]] == [
        ("compute-7", "gpu_count"),
        ("compute-7", "gpu_xid"),
        ("compute-9", "ib_write_bandwidth"),
        ("compute-6", ""),
    ]
    assert rows[0]["summary"] == "7 of 8 GPUs: 0003:00:00.0 is not there"
    assert rows[0]["azure_id"] == azure_id("compute-7")
    assert "No route to host" in rows[3]["summary"]
    document = json.loads(copied(shown, "JSON"))
    assert [node["host_name"] for node in document["nodes"]][:3] == ["compute-7", "compute-9", "compute-6"]
    assert [check["fault"] for check in document["nodes"][0]["checks"]] == ["NHC2009", "NHC2001"]
    assert document["time"] == TIME


def test_what_a_node_says_is_no_formula_and_no_part_of_a_command(opened: chromium.Page, tmp_path: Path) -> None:
    results = cluster(12)
    bad = results[7]["result"]["health"]
    bad["node"]["name"] = "compute-[0-11]; reboot"
    bad["checks"][0]["summary"] = '=HYPERLINK("http://x","y")\x1b[2J'
    bad["checks"][4]["summary"] = "-1+2"
    made = report(results)
    made["nodes"][9]["host_name"] = "$(reboot)"
    (tmp_path / "hostile.html").write_text(page({**made, "outliers": []}), encoding="utf-8")
    opened.open((tmp_path / "hostile.html").as_uri())
    opened.wait("document.documentElement.dataset.painted")
    assert copied(opened, "Host list") == "compute-7"
    assert text(opened, "#copy-without").startswith("1 node left out of the commands")
    for button in BUTTONS[1:5]:
        assert "reboot" not in copied(opened, button)
    summaries = [row["summary"] for row in csv.DictReader(io.StringIO(copied(opened, "CSV")))]
    assert summaries[:2] == ['\'=HYPERLINK("http://x","y")?[2J', "'-1+2"]


@pytest.mark.parametrize("clipboard", ["undefined", "({writeText: () => Promise.reject(new Error('not allowed'))})"])
def test_copies_where_the_browser_offers_no_clipboard(opened: chromium.Page, show: Show, clipboard: str) -> None:
    source = f"Object.defineProperty(Navigator.prototype, 'clipboard', {{get: () => {clipboard}}})"
    script = opened.send("Page.addScriptToEvaluateOnNewDocument", source=source)["identifier"]
    try:
        shown = show()
        assert copied(shown, "scontrol show") == "scontrol show node 'compute-[7,9]'"
        shown.run("document.execCommand = () => false")
        click(shown, "#copy-buttons button")
        shown.wait("document.getElementById('copied').textContent.startsWith('The browser does not allow copying')")
        assert shown.run("document.getElementById('copy-texts').open") is True
    finally:
        opened.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["compute-379", "compute-482"],
        [f"n{number}" for number in range(12)],
        ["a01", "a02", "a3", "a9", "a10", "a010", "a011"],
        ["x", "x", "x1", "x1", "x2", "y2", "y3", "login"],
        ["n0", "n1", "n00", "n01", "n999999999999999999", "n1000000000000000000", "007", "008"],
        ["b-2", "b-1", "b-0", "b-7", "b-8", "b-9", "b-10", "c-2-1", "c-2-2", "c.d3"],
        ["n123456789012345678", "n123456789012345679"],
    ],
)
def test_a_host_list_is_folded_as_python_folds_it(opened: chromium.Page, names: list[str]) -> None:
    source = (SCRIPTS / "hostlist.js").read_text(encoding="utf-8")
    assert opened.run(f"(() => {{ {source}\n return compress({json.dumps(names)}); }})()") == compress(names)


@pytest.mark.parametrize(
    "word", ["", "a-b_c.d@%+=:,/9", "n[1-2]", "it's", '$(x) `y` "z" \\', "a b", "ä", "x;y", "~", "!"]
)
def test_a_word_is_quoted_as_python_quotes_it(opened: chromium.Page, word: str) -> None:
    source = (SCRIPTS / "hostlist.js").read_text(encoding="utf-8")
    assert opened.run(f"(() => {{ {source}\n return quote({json.dumps(word)}); }})()") == shlex.quote(word)
