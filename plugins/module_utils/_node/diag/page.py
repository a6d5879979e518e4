# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The first page of a bundle: one HTML file without scripts, which needs no network. All texts are escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from ..machine.web_page import document, table

_MOST_FAILURES = 20


def page(index: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Return the first page of a bundle.

    :param texts: the texts of items by their names.
    """
    body = [_identity(index, texts)]
    failures = _failures(texts)
    if failures:
        body.append("<h2>Failed health checks</h2>" + table(("check", "verdict", "what"), failures))
    body.append(f"<h2>Contents</h2>{_contents(index['items'])}")
    hidden = sum(item["redacted"] for item in index["items"])
    body.append(
        f"<p>{hidden} values were hidden, because they are secrets, look like secrets, or are settings that are not "
        "known to be harmless. Read the files before you send them to somebody: a secret that looks like an ordinary "
        "word cannot be found.</p>"
    )
    return document(f"Diagnostics of {index['node']}", body)


def _identity(index: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    facts = {"made": index["made_at"], "hpcnode": index["hpcnode"], "duration": f"{index['seconds']:g} s"}
    host = _json_of("host", texts).get("host")
    if isinstance(host, Mapping):
        facts["physical host"] = host.get("PhysicalHostNameFullyQualified") or host.get("PhysicalHostName") or "unknown"
    instance = _json_of("instance", texts)
    facts["vmId"] = instance.get("vm_id", "unknown")
    facts["VM size"] = instance.get("vm_size", "unknown")
    if index["pseudonyms"]:
        facts["names"] = "users, machines and addresses have pseudonyms"
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    return f"<dl>{pairs}</dl>"


def _contents(items: Iterable[Mapping[str, Any]]) -> str:
    rows = []
    for item in items:
        name = escape(item["title"])
        shown = f'<a href="{escape(item["file"])}">{name}</a>' if item["file"] else name
        cut = f"cut: {item['cut']}" if item["cut"] else ""
        problem = "; ".join(filter(None, (cut, item["note"])))
        exit_status = "" if item["exit"] is None else str(item["exit"])
        rows.append(
            (
                shown,
                f"{item['bytes'] / 1024:.0f}" if item["file"] else "",
                f"{item['seconds']:.1f}",
                exit_status,
                str(item["redacted"] or ""),
                f'<span class="bad">{escape(problem)}</span>' if problem else "",
                escape(item["holds"]),
            )
        )
    heads = ("what", "KiB", "s", "exit", "hidden", "problems", "may contain")
    return table(heads, rows, numbers=(1, 2, 3, 4))


def _failures(texts: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the checks that failed in the newest results."""
    rows: set[tuple[str, str, str]] = set()
    for document_of_tier in _documents("health", texts):
        checks = document_of_tier.get("checks")
        for check in checks if isinstance(checks, list) else ():
            if isinstance(check, Mapping) and check.get("verdict") in ("fail", "unknown"):
                name, verdict, summary = (escape(str(check.get(key))) for key in ("name", "verdict", "summary"))
                rows.add((name, verdict, summary))
    return sorted(rows)[:_MOST_FAILURES]


def _documents(name: str, texts: Mapping[str, str]) -> Iterable[Mapping[str, Any]]:
    text = texts.get(name, "")
    decoder = json.JSONDecoder()
    for part in text.split("\n# /") if text else ():
        begin = part.find("{")
        try:
            found, _end = decoder.raw_decode(part[begin:]) if begin >= 0 else ({}, 0)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, Mapping):
            yield found


def _json_of(name: str, texts: Mapping[str, str]) -> Mapping[str, Any]:
    return next(iter(_documents(name, texts)), {})
