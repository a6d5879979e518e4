# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Parses azcopy's output, one JSON object per line, and describes the result of a run and what to do."""

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
    """A line of azcopy's output.

    :ivar kind: INFO, PROGRESS, END, ERROR, LISTED, INIT, or another message type of azcopy.
    :ivar text: the message as text.
    :ivar content: the message as JSON object; empty if it is plain text.
    """

    kind: str
    text: str
    content: Mapping[str, Any]

    def number(self, key: str) -> float:
        """Return a number of the content, which azcopy writes as a string; 0 if there is none."""
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

    :ivar name: relative to the listed location.
    :ivar size: stored size in bytes.
    :ivar md5: of the stored content, in hexadecimal; empty if the uploader stored none.
    :ivar encoding: its Content-Encoding, such as ``gzip``; mostly empty.
    :ivar last_modified: ISO 8601 in UTC.
    """

    name: str
    size: int
    md5: str = ""
    encoding: str = ""
    last_modified: str = ""


def event_of(line: str) -> Event:
    """Parse a line; a line that is not JSON, such as a crash's, becomes an ERROR."""
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

    :raises ValueError: the line does not describe a blob.
    """
    path, length = event.content.get("Path"), event.content.get("ContentLength")
    if not isinstance(path, str) or not str(length).isdecimal():
        raise ValueError(f"azcopy's list has an entry that is not a blob: {event.text[:200]}")
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
    "such as 'Storage Blob Data Reader' on the container",
    VANISHED: "the blob does not exist any more (404): create a new plan",
    NO_CONTAINER: "the container does not exist (404): check its name",
    FULL: "the disk is full: free space, or stage to a larger file system",
    THROTTLED: "the account throttles (503, 429): set a cap below its limit (--account-gbps), or use fewer processes",
    UNRESOLVED: "the account's name cannot be resolved: check the URL and DNS",
    UNREACHABLE: "the account cannot be reached: check the network, the account's firewall and private endpoint",
    STALLED: "the transfer stalled",
    OVERDUE: "the timeout was reached",
    DAMAGED: "the received data differs from the stored data (MD5): it was removed; try again",
    NO_AZCOPY: "azcopy cannot be started: the role hpcai.azure.blob_staging installs it, together with libsecret",
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
    """Blobs could not be listed or transferred; the message says which and why.

    :ivar why: one of this file's causes, such as DENIED.
    """

    def __init__(self, message: str, why: str = OTHER) -> None:
        super().__init__(message)
        self.why = why


@dataclass(frozen=True)
class Failure:
    """A blob that was not transferred.

    :ivar name: relative to the location.
    :ivar why: one of this file's causes, such as DENIED.
    :ivar words: a sentence without the full stop.
    """

    name: str
    why: str
    words: str


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    :ivar failures: the blobs that were not transferred, by name.
    :ivar why: the cause if the run as a whole failed; otherwise empty.
    :ivar words: a sentence about that cause, without the full stop.
    :ivar bytes_over_wire: bytes sent over the network, including retries.
    :ivar seconds: how long it took.
    :ivar log: path of azcopy's log, if there is one.
    """

    failures: tuple[Failure, ...] = ()
    why: str = ""
    words: str = ""
    bytes_over_wire: int = 0
    seconds: float = 0.0
    log: str = ""

    @property
    def done(self) -> bool:
        """Whether all blobs were transferred."""
        return not self.failures and not self.why

    def sentence(self) -> str:
        """Describe the failures in one line; an empty text if there are none."""
        if self.done:
            return ""
        words = [self.words] if self.why else []
        for why in dict.fromkeys(failure.why for failure in self.failures):
            if why != self.why:
                words.append(_together([failure for failure in self.failures if failure.why == why]))
        return "; ".join(words)

    def must(self) -> Outcome:
        """Return this result if all blobs were transferred.

        :raises BlobError: some were not.
        """
        if not self.done:
            raise BlobError(self.sentence(), self.why or self.failures[0].why)
        return self


def sentence_of(why: str, detail: str = "") -> str:
    """Return the sentence about a cause, without the full stop."""
    sentence = _SENTENCES.get(why, "")
    return f"{sentence} ({detail})" if sentence and detail else sentence or detail or "azcopy failed without a message"


def why_of(text: str) -> str:
    """Return the cause of a message of azcopy."""
    for why, sign in _SIGNS:
        if sign.search(text):
            return why
    return OTHER


def why_of_code(code: str, text: str) -> str:
    """Return the cause of a failed transfer, from the log's text or else from its error code, an HTTP status or 0."""
    found = why_of(text) if text else OTHER
    if found != OTHER:
        return found
    return {"401": DENIED, "403": DENIED, "404": VANISHED, "429": THROTTLED, "503": THROTTLED}.get(code, OTHER)


def _together(failures: Iterable[Failure]) -> str:
    listed = list(failures)
    names = ", ".join(repr(failure.name) for failure in listed[:_MOST_NAMED])
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return f"{names}{more}: {listed[0].words}"
