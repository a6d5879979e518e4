# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the page that need no script: its head, what to look at, the commands, and the table without scripts.

What to look at is grouped by node, because a reader repairs nodes. An element with ``data-show`` becomes a button that
opens this view, given in the form of the page's address after the ``#``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from .commands import commands_of, documentation_link, is_usable, portal_link
from .gather import NO_ANSWER, STATES, headline, state_word, what
from .markup import Html, badge, element, joined, link, moment, symbol
from .words import action_words, many

Report = Mapping[str, Any]
Node = Mapping[str, Any]

GOOD = ("pass", "skip")
MOST_NODES = 9
"""Nodes that are not folded."""
_MOST_CHECKS = 6
_MOST_CHIPS = 8
_MOST_COUNTS = 8


def head(report: Report) -> Html:
    """Return the head: the counts in one sentence, and the time of the report."""
    where = ["Cluster health", report["cluster"], f"tier {report['tier']}"]
    where += [f"limited to {report['limit']}"] if report["limit"] else []
    version = f", by hpcai.azure {report['collection']}" if report["collection"] else ""
    counts = f"{many(len(report['nodes']), 'node')}, {many(len(report['checks']), 'check')}{version}"
    return joined(
        element("p", " · ".join(filter(None, where)), class_="over"),
        element("h1", _sentence(report), id="headline"),
        element("p", moment(report["time"], id="made"), " ", element("span", id="age", class_="age"), class_="under"),
        element("p", counts, class_="under"),
    )


def _sentence(report: Report) -> str:
    counts, total = report["counts"], len(report["nodes"])
    parts = []
    if counts["fail"]:
        failing = f"All {total}" if counts["fail"] == total else f"{counts['fail']} of {total}"
        parts.append(f"{failing} nodes fail")
    if counts[NO_ANSWER]:
        parts.append(f"{many(counts[NO_ANSWER], 'node')} gave no answer")
    if not parts and counts["unknown"]:
        parts.append(f"{many(counts['unknown'], 'node')} could not be measured")
    return ", ".join(parts) or (f"No node of {total} fails" if total else "No node was checked")


def attention(report: Report) -> Html:
    """Return what to look at: physical hosts with several failing nodes, the bad nodes, and the outliers."""
    bad = [node for node in report["nodes"] if node["state"] not in GOOD]
    bad.sort(key=lambda node: (STATES.index(node["state"]), -len(_guilty(node))))
    first = [*_shared_hosts(report), *map(_node_item, bad[:MOST_NODES])]
    if report["outliers"]:
        first.append(_outliers(report))
    if not first and report.get("suspects"):
        return Html()
    rest = [_node_item(node) for node in bad[MOST_NODES:]]
    more = element("summary", f"{len(rest)} more {'node' if len(rest) == 1 else 'nodes'}")
    return element(
        "section",
        element("h2", "What to look at", id="attention-title"),
        _by_check(bad),
        element("ul", *(first or [_nothing()]), class_="attention-list"),
        element("details", more, element("ul", *rest, class_="attention-list"), class_="attention-more")
        if rest
        else Html(),
        class_="attention",
        id="attention",
        aria_labelledby="attention-title",
    )


def _nothing() -> Html:
    words = "All nodes answered, no check found a problem, and there are no outliers."
    return _item("pass", element("strong", "Nothing to do"), words)


def _by_check(bad: Sequence[Node]) -> Html:
    """Return how many nodes have the same problem, if there are several bad nodes."""
    problems = (dict.fromkeys((check["verdict"], check["name"]) for check in _guilty(node)) for node in bad)
    counts = Counter(problem for of_node in problems for problem in of_node)
    # The worst first, then the most frequent. The sort keeps the order of the checks.
    order = sorted(counts, key=lambda each: (STATES.index(each[0]), -counts[each]))
    if len(bad) < 2 or not order:
        return Html()
    items = [
        element("li", _shows(name, check=name, state=verdict), f" {verdict} on {many(counts[verdict, name], 'node')}")
        for verdict, name in order[:_MOST_COUNTS]
    ]
    if len(order) > _MOST_COUNTS:
        items.append(element("li", f"and {len(order) - _MOST_COUNTS} more"))
    return element("ul", *items, class_="by-check", aria_label="The same by check")


def _node_item(node: Node) -> Html:
    """Return a bad node: two lines, and below them its problems and where to go."""
    name, state = node["host_name"], node["state"]
    line = element("span", element("span", name, class_="node-name"), " ", badge(state), class_="node-line")
    guilty = _guilty(node)
    checks = [_check(check) for check in guilty[:_MOST_CHECKS]]
    if len(guilty) > _MOST_CHECKS:
        checks.append(element("li", f"and {len(guilty) - _MOST_CHECKS} more"))
    parts = [element("summary", line, " ", element("span", brief(node), class_="node-brief"))]
    if node["problem"]:
        parts.append(element("p", f"This node gave no result: {node['problem']}.", class_="attention-why"))
    if checks:
        parts.append(element("ul", *checks, class_="node-checks"))
    identity = " · ".join(filter(None, (node["vm_size"], node["host"])))
    # The script shows it when it is a button.
    links = [_shows(f"All results of {name}", hidden=True, node=name)]
    if portal := portal_link(node["azure_id"]):
        links.append(link(portal, "Azure portal", f"for {name}"))
    parts.append(element("p", *([element("span", identity, class_="dim")] if identity else []), *links, class_="links"))
    return element("li", element("details", *parts, class_=f"node-item is-{state}", open=""))


def _check(check: Mapping[str, Any]) -> Html:
    verdict, name = check["verdict"], check["name"]
    action = action_words(check["action"]) if verdict != "unknown" else ""
    notes = [check["hint"], f"Action: {action}" if action else "", f"Code: {check['fault']}" if check["fault"] else ""]
    sentences = [note.rstrip(". \n") + "." for note in notes if note.strip(". \n")]
    address = documentation_link(name)
    return element(
        "li",
        symbol(verdict, state_word(verdict)),
        element(
            "div",
            element("strong", name),
            f" {check['summary']}",
            element(
                "p",
                " ".join(sentences),
                *([" ", link(address, "Documentation", f"of {name}")] if address else []),
                class_="attention-why",
            ),
        ),
    )


def _guilty(node: Node) -> list[Mapping[str, Any]]:
    """Return the checks that found something, the worst first."""
    found = [check for check in node["checks"] if check["verdict"] not in GOOD]
    return sorted(found, key=lambda check: STATES.index(check["verdict"]))


def brief(node: Node) -> str:
    """Return the problem of a node in a few words: the names of the checks, or why it gave no answer."""
    if node["problem"]:
        return str(node["problem"]).partition(":")[0]
    return ", ".join(check["name"] for check in _guilty(node) if check["verdict"] == node["state"])


def _shared_hosts(report: Report) -> list[Html]:
    by_host: dict[str, list[Node]] = {}
    for node in report["nodes"]:
        if node["state"] == "fail" and node["host"]:
            by_host.setdefault(node["host"], []).append(node)
    return [
        _item(
            "fail",
            _shows(f"Physical host {host}", class_="attention-title", host=host),
            f"{many(len(found), 'node')} on it fail: the host may be faulty.",
            [_chip(node) for node in found],
        )
        for host, found in by_host.items()
        if len(found) > 1
    ]


def _outliers(report: Report) -> Html:
    found = report["outliers"]
    counts = Counter(odd["node"] for odd in found)
    nodes = {node["host_name"]: node for node in report["nodes"]}
    words = "Values far from the median of all nodes of the same VM size. They may still be within the limits."
    return _item(
        "warn",
        _shows(many(len(found), "outlier"), class_="attention-title", view="values"),
        found[0]["why"] if len(found) == 1 else words,
        [_chip(nodes[name]) for name, _count in counts.most_common()],
    )


def _item(state: str, title: Html, words: str, chips: Sequence[Html] = ()) -> Html:
    more = len(chips) - _MOST_CHIPS
    shown = [*chips[:_MOST_CHIPS], *([element("span", f"and {more} more", class_="dim")] if more > 0 else [])]
    return element(
        "li",
        symbol(state, state_word(state)),
        element(
            "div",
            title,
            element("p", words, class_="attention-why"),
            *([element("div", *shown, class_="chips")] if shown else []),
            class_="attention-words",
        ),
        class_=f"attention-item is-{state}",
    )


def _chip(node: Node) -> Html:
    label = joined(symbol(node["state"], state_word(node["state"])), node["host_name"])
    return _shows(label, class_="chip", node=node["host_name"])


def _shows(label: str, *, class_: str = "shows", hidden: bool = False, **view: str) -> Html:
    return element("span", label, class_=class_, data_show=urlencode(view), **_hidden(hidden))


def copy_panel(report: Report) -> Html:
    """Return the commands for the failing nodes. The script adds the buttons, and follows the reader's filter."""
    failing = [node for node in report["nodes"] if node["state"] == "fail"]
    usable = [node for node in failing if is_usable(node)]
    rows = []
    for place, command in enumerate(commands_of(report)):
        code = element("code", command.text(failing), id=f"command-{place}")
        rows.append(joined(element("dt", command.label), element("dd", code)))
    without = many(len(failing) - len(usable), "node")
    note = f"{without} left out of the commands: a shell could interpret the name."
    summary = element("summary", "Show these commands")
    return element(
        "section",
        element("h2", copy_title(len(failing)), id="copy-title"),
        element("div", id="copy-buttons", class_="copy-buttons", role="group", aria_labelledby="copy-title"),
        element("output", id="copied", class_="dim"),
        element("p", note, id="copy-without", class_="dim", **_hidden(len(usable) == len(failing))),
        element("details", summary, element("dl", *rows), id="copy-texts", **_hidden(not usable)),
        class_="copy",
        id="copy",
        aria_labelledby="copy-title",
        **_hidden(not failing),
    )


def _hidden(yes: bool) -> dict[str, str]:
    return {"hidden": ""} if yes else {}


def copy_title(count: int) -> str:
    """Return the title of the commands for the failing nodes."""
    return f"Copy for {many(count, 'node')} that {'fails' if count == 1 else 'fail'}"


def without_script(report: Report) -> Html:
    """Return the verdict of each node as a table, for browsers that run no script."""
    names = ("Node", "Verdict", "What", "VM size", "Physical host")
    heads = element("tr", *(element("th", name, scope="col", role="columnheader") for name in names), role="row")
    # Classes and roles as in nodes.js, because on a phone these rows are cards too.
    table = element(
        "table",
        element("thead", heads, role="rowgroup"),
        element("tbody", *map(_row, report["nodes"]), role="rowgroup"),
        class_="nodes",
        role="table",
    )
    return joined(
        element("h2", "All nodes"),
        element("p", headline(report), class_="note"),
        element("p", "Filters, map and values need JavaScript. report.json has the same results.", class_="dim"),
        element("div", table, class_="table-frame"),
    )


def _row(node: Node) -> Html:
    machine = " · ".join(filter(None, (node["vm_size"], node["host"])))
    problem = element("span", what(node), class_="full"), element("span", brief(node) or machine, class_="brief")
    cells = (
        element("td", node["host_name"], role="cell"),
        element("td", badge(node["state"]), role="cell"),
        element("td", *problem, class_="what", role="cell"),
        element("td", node["vm_size"], class_="more", role="cell"),
        element("td", node["host"], class_="more", role="cell"),
    )
    return element("tr", *cells, role="row")
