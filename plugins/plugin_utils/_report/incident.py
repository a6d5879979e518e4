# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Joins the diagnostics of several machines to one archive. What a machine sent is not trusted.

Only the files that the catalogue makes are copied, with size limits. The first page of each machine is made again from
its index, because a page that a broken or hostile machine made could contain anything.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.catalog import CATALOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag.page import page
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.web_page import document, table

SCHEMA = 1
MOST_BYTES = 24 << 20
"""Size limit of one file, in bytes: more than any item may have."""
MOST_TOTAL = 128 << 20
"""Size limit of the files of one machine together, in bytes."""
_ITEM = re.compile(r"[\w.-]+/items/([a-z0-9_]{1,40})\.txt")
_INDEX = re.compile(r"[\w.-]+/index\.json")
_HOST = re.compile(r"[\w.-]{1,120}")
_TITLES = {item.name: (item.title, item.holds) for item in CATALOG}


class BadArchive(ValueError):
    """A machine's archive is invalid; the message says why."""


@dataclass(frozen=True)
class NodeArchive:
    """What a machine sent.

    :ivar host: its name in the inventory, or its pseudonym.
    :ivar path: its archive, on the control node; empty if there is none.
    :ivar problem: why there is none.
    :ivar reason: why the machine belongs to the incident.
    """

    host: str
    path: str = ""
    problem: str = ""
    reason: str = ""


def read_archive(path: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the index of a machine's archive, and its texts by the names of the items.

    :raises BadPart: it is no archive of hpcnode, or larger than any such archive.
    """
    index: Any = None
    texts: dict[str, str] = {}
    total = 0
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                total += member.size
                if member.size > MOST_BYTES or total > MOST_TOTAL:
                    raise BadArchive("it is too large")
                item, file = _ITEM.fullmatch(member.name), archive.extractfile(member) if member.isreg() else None
                if file is None or not (item or _INDEX.fullmatch(member.name)):
                    continue
                text = file.read().decode("utf-8", "replace")
                if item:
                    texts[item[1]] = text
                else:
                    index = json.loads(text)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise error if isinstance(error, BadArchive) else BadArchive(f"it cannot be read: {error}") from None
    if not isinstance(index, dict) or index.get("schema") != SCHEMA or not isinstance(index.get("items"), list):
        raise BadArchive("it has no index of a known schema")
    return _checked(index, texts), texts


def _checked(index: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the index with known fields and types only."""
    items = []
    for given in index["items"]:
        name = str(given.get("name", "")) if isinstance(given, dict) else ""
        if name not in _TITLES:
            continue
        title, holds = _TITLES[name]
        items.append(
            {
                "name": name,
                "title": title,
                "holds": holds,
                "file": f"items/{name}.txt" if name in texts else "",
                "bytes": len(texts.get(name, "").encode()),
                "exit": int(_number(given.get("exit"))) if given.get("exit") is not None else None,
                "seconds": _number(given.get("seconds")),
                "cut": str(given.get("cut") or "")[:40],
                "redacted": int(_number(given.get("redacted"))),
                "note": str(given.get("note") or "")[:500],
            }
        )
    plain = {name: str(index.get(name) or "")[:120] for name in ("node", "made_at", "hpcnode")}
    flags = {"seconds": _number(index.get("seconds")), "pseudonyms": index.get("pseudonyms") is True}
    return {"schema": SCHEMA, **plain, **flags, "items": items}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e12 else 0.0


def write_incident(parts: Sequence[NodeArchive], path: str, title: str, now: float) -> dict[str, dict[str, Any]]:
    """Write the archive of all machines, and return what it has of each, by its name.

    Only one file of one machine is in memory at a time beside the texts of that machine.

    :raises OSError: it cannot be written; then there is no file at the path.
    """
    folder = os.path.basename(path).removesuffix(".tar.gz")
    found: dict[str, dict[str, Any]] = {}
    temporary = f"{path}.partial"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            for part in parts:
                found[part.host] = {"reason": part.reason, "problem": part.problem, "items": 0, "hidden": 0, "page": ""}
                for name, text in _files_of(part, found[part.host]):
                    _add(archive, f"{folder}/{name}", text, now)
            index = {"schema": SCHEMA, "title": title, "made_at": _utc(now), "machines": found}
            _add(archive, f"{folder}/index.json", json.dumps(index, indent=1) + "\n", now)
            _add(archive, f"{folder}/index.html", _first_page(title, found, now), now)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return found


def _files_of(part: NodeArchive, about: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if not part.path:
        return
    if not _HOST.fullmatch(part.host) or part.host in (".", ".."):
        about["problem"] = "its name cannot be a file name"
        return
    try:
        index, texts = read_archive(part.path)
        first_page = page(index, texts)
    except (BadArchive, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # Beside BadArchive, these come from values of another type than hpcnode writes.
        about["problem"] = f"its archive is invalid: {error}"
        return
    about["items"] = sum(bool(item["file"]) for item in index["items"])
    about["hidden"] = sum(item["redacted"] for item in index["items"])
    about["page"] = f"{part.host}/index.html"
    yield f"{part.host}/index.json", json.dumps(index, indent=1) + "\n"
    yield about["page"], first_page
    for item in index["items"]:
        if item["file"]:
            yield f"{part.host}/{item['file']}", texts[item["name"]]


def _add(archive: tarfile.TarFile, name: str, text: str, now: float) -> None:
    data = text.encode("utf-8", "replace")
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), int(now), 0o644
    archive.addfile(member, io.BytesIO(data))


def _utc(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def _first_page(title: str, machines: Mapping[str, Mapping[str, Any]], now: float) -> str:
    rows = []
    for host, about in machines.items():
        name = escape(host)
        shown = f'<a href="{escape(about["page"])}">{name}</a>' if about["page"] else name
        problem = f'<span class="bad">{escape(about["problem"])}</span>' if about["problem"] else ""
        rows.append((shown, escape(about["reason"]), str(about["items"]), str(about["hidden"]), problem))
    heads = ("machine", "reason in Slurm", "items", "hidden values", "problems")
    body = [f"<p>Collected at {escape(_utc(now))}.</p>", table(heads, rows, numbers=(2, 3))]
    return document(title, body)
