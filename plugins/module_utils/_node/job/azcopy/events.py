# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What azcopy says while it works: one JSON object a line, with another one in it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INFO, PROGRESS, END, ERROR, LISTED, INIT = "Info", "Progress", "EndOfJob", "Error", "ListObject", "Init"


@dataclass(frozen=True)
class Event:
    """A line.

    :ivar kind: INFO, PROGRESS, END, ERROR, LISTED, INIT, or another word of azcopy's.
    :ivar text: what it says to people.
    :ivar content: what it says to programs.
    """

    kind: str
    text: str
    content: Mapping[str, Any]

    def number(self, key: str) -> float:
        """Return a number of the content, which azcopy writes as a text; 0 where there is none."""
        try:
            return float(self.content.get(key) or 0)
        except (TypeError, ValueError):
            return 0.0

    @property
    def failed(self) -> list[Mapping[str, Any]]:
        """The transfers that failed since the last such line."""
        found = self.content.get("FailedTransfers")
        return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


@dataclass(frozen=True)
class Blob:
    """A blob.

    :ivar name: relative to the place that was listed.
    :ivar size: in bytes, as it is stored.
    :ivar md5: of what is stored, in hexadecimal; empty where whoever wrote it stored none.
    :ivar encoding: its Content-Encoding, such as ``gzip``; mostly empty.
    :ivar last_modified: when, as ISO 8601 in UTC.
    """

    name: str
    size: int
    md5: str = ""
    encoding: str = ""
    last_modified: str = ""


def event_of(line: str) -> Event:
    """Return what a line says; a line that is no JSON is an ERROR, as what a crash leaves behind."""
    try:
        given = json.loads(line)
        kind, text = str(given["MessageType"]), str(given["MessageContent"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return Event(ERROR, line, {})
    try:
        content = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        content = {}
    return Event(kind, text, content if isinstance(content, dict) else {})


def blob_of(event: Event) -> Blob:
    """Return the blob of a LISTED line.

    :raises ValueError: it is none.
    """
    path, length = event.content.get("Path"), event.content.get("ContentLength")
    if not isinstance(path, str) or not str(length).isdecimal():
        raise ValueError(f"azcopy lists something that is no blob: {event.text[:200]}")
    return Blob(
        name=path,
        size=int(str(length)),
        md5=_hexadecimal(event.content.get("ContentMD5")),
        encoding=str(event.content.get("ContentEncoding") or "").lower(),
        last_modified=str(event.content.get("LastModifiedTime") or ""),
    )


def _hexadecimal(encoded: Any) -> str:
    try:
        return base64.b64decode(encoded or "", validate=True).hex()
    except (TypeError, ValueError, binascii.Error):
        return ""
