# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What azcopy writes, one JSON object a line, and what came of a run, in words that say what to do."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...machine.run import CommandFailed

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

    :ivar name: relative to the location that was listed.
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


DENIED, VANISHED, NO_CONTAINER, FULL = "denied", "vanished", "no_container", "full"
THROTTLED, UNRESOLVED, UNREACHABLE, STALLED, OVERDUE = "throttled", "unresolved", "unreachable", "stalled", "overdue"
DAMAGED, NO_AZCOPY, OTHER = "damaged", "no_azcopy", "other"

_SENTENCES = {
    DENIED: "access was denied (403): the SAS is wrong, expired or lacks a permission, or the identity has no role "
    "such as 'Storage Blob Data Reader' there",
    VANISHED: "the blob is not there any more (404): list anew and plan again",
    NO_CONTAINER: "the container does not exist (404): look at its name",
    FULL: "the disk is full: make room, or stage to a larger file system",
    THROTTLED: "the account throttles (503, 429): set a cap under its limit (--account-gbps), or use fewer processes",
    UNRESOLVED: "the account's name cannot be resolved: look at the URL and at DNS",
    UNREACHABLE: "the account cannot be reached: look at the network, its firewall and private endpoint",
    STALLED: "nothing moved any more",
    OVERDUE: "the time for it is over",
    DAMAGED: "what arrived is not what is stored (MD5): it was removed; try again",
    NO_AZCOPY: "azcopy cannot be started: role hpcai.azure.blob_staging installs it, and libsecret with it",
}
_SIGNS = (
    (FULL, re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)),
    (NO_CONTAINER, re.compile(r"ContainerNotFound|container does not exist|ContainerBeingDeleted", re.IGNORECASE)),
    (THROTTLED, re.compile(r"ServerBusy|TooManyRequests|RESPONSE (503|429)|OperationTimedOut|: (503|429) :")),
    (
        DENIED,
        re.compile(
            r"RESPONSE 40[13]\b|AuthorizationFailure|AuthorizationPermissionMismatch|AuthenticationFailed|: 40[13] :"
            r"|NoAuthenticationInformation|PublicAccessNotPermitted|failed to get.*token|Failed to perform Auto-login",
        ),
    ),
    (VANISHED, re.compile(r"BlobNotFound|RESPONSE 404|: 404 :|ResourceNotFound|no such file or directory")),
    (DAMAGED, re.compile(r"MD5 (hash|values|of)|md5 .*(match|differ)|the MD5", re.IGNORECASE)),
    (UNRESOLVED, re.compile(r"no such host|server misbehaving|Temporary failure in name resolution")),
    (UNREACHABLE, re.compile(r"connection refused|network is unreachable|no route to host|i/o timeout|TLS handshake")),
    (NO_AZCOPY, re.compile(r"error while loading shared libraries|command not found")),
)
_MOST_NAMED = 3


class BlobError(CommandFailed):
    """Blobs could not be listed or carried; the message says which and why.

    :ivar why: one of this file's words.
    """

    def __init__(self, message: str, why: str = OTHER) -> None:
        super().__init__(message)
        self.why = why


@dataclass(frozen=True)
class Failure:
    """A blob that was not carried.

    :ivar name: relative to the location.
    :ivar why: one of this file's words.
    :ivar words: a sentence without its end.
    """

    name: str
    why: str
    words: str


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    :ivar failures: the blobs that were not carried, by name.
    :ivar why: what ended the whole run before its end; empty if nothing did.
    :ivar words: a sentence about that without its end.
    :ivar bytes_over_wire: what went over the network, repeated requests included.
    :ivar seconds: how long it took.
    :ivar log: azcopy's log, where there is one.
    """

    failures: tuple[Failure, ...] = ()
    why: str = ""
    words: str = ""
    bytes_over_wire: int = 0
    seconds: float = 0.0
    log: str = ""

    @property
    def done(self) -> bool:
        """Whether all was carried."""
        return not self.failures and not self.why

    def sentence(self) -> str:
        """Return what went wrong in one line; nothing if nothing did."""
        if self.done:
            return ""
        words = [self.words] if self.why else []
        for why in dict.fromkeys(failure.why for failure in self.failures):
            if why != self.why:
                words.append(_together([failure for failure in self.failures if failure.why == why]))
        return "; ".join(words)

    def must(self) -> Outcome:
        """Return this if all was carried.

        :raises BlobError: it was not.
        """
        if not self.done:
            raise BlobError(self.sentence(), self.why or self.failures[0].why)
        return self


def sentence_of(why: str, detail: str = "") -> str:
    """Return the sentence about a cause, without its end."""
    sentence = _SENTENCES.get(why, "")
    return f"{sentence} ({detail})" if sentence and detail else sentence or detail or "azcopy failed and said nothing"


def why_of(text: str) -> str:
    """Return the cause that a message of azcopy's stands for."""
    for why, sign in _SIGNS:
        if sign.search(text):
            return why
    return OTHER


def why_of_code(code: str, text: str) -> str:
    """Return the cause of a transfer's error code, an HTTP status or 0, with what the log says of it."""
    found = why_of(text) if text else OTHER
    if found != OTHER:
        return found
    return {"401": DENIED, "403": DENIED, "404": VANISHED, "429": THROTTLED, "503": THROTTLED}.get(code, OTHER)


def _together(failures: Iterable[Failure]) -> str:
    listed = list(failures)
    names = ", ".join(repr(failure.name) for failure in listed[:_MOST_NAMED])
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{names}{more}: {listed[0].words}"
