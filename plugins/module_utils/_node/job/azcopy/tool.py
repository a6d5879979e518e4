# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Runs azcopy with credentials and limits, and with its logs and plans in a folder of the collection."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...machine.run import STALL, bound_to_this_process, follow
from .credential import Credential
from .location import BlobLocation, redacted
from .options import Limits
from .output import (
    END,
    ERROR,
    INFO,
    INIT,
    NO_AZCOPY,
    OTHER,
    OVERDUE,
    PROGRESS,
    STALLED,
    THROTTLED,
    UNREACHABLE,
    UNRESOLVED,
    BlobError,
    Event,
    event_of,
    sentence_of,
    why_of,
)

PROGRAM = "azcopy"
_RESOLVE_S = 15.0
# azcopy's log line for a retried request; the log has no HTTP status if the answer had no body.
_RETRIED = re.compile(r"Try=([2-9]|\d\d+)/.*RESPONSE STATUS CODE ERROR")
_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True)
class Progress:
    """The progress of a run.

    :ivar files: how many are complete.
    :ivar bytes_done: of complete and incomplete files.
    :ivar bytes_expected: of all files that azcopy has found so far.
    :ivar busy_percent: share of requests that the account throttled.
    """

    files: int
    bytes_done: int
    bytes_expected: int
    busy_percent: float


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Azcopy:
    """How to call azcopy.

    :ivar folder: for its logs, plans and lists of files; created if it is missing.
    :ivar credential: the credentials to use.
    :ivar limits: bandwidth, connections and timeouts.
    :ivar program: the program azcopy.
    """

    folder: str
    credential: Credential
    limits: Limits = field(default_factory=Limits)
    program: str = PROGRAM


@dataclass
class AzcopyRun:
    """The output of a run.

    :ivar events: messages and errors, redacted.
    :ivar failed: failed transfers, by their source.
    :ivar end: the last line with totals.
    :ivar log: path of its log.
    """

    rc: int = 0
    why: str = ""
    words: str = ""
    events: list[str] = field(default_factory=list)
    failed: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    end: Event | None = None
    log: str = ""
    seconds: float = 0.0
    network_errors: float = 0.0
    busy: float = 0.0


def call(
    tool: Azcopy,
    words: Sequence[str],
    location: BlobLocation,
    on_progress: OnProgress | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> AzcopyRun:
    """Run azcopy with these arguments, and return its parsed output with the cause of a failure.

    :raises BlobError: the account's name cannot be resolved, or azcopy cannot be started.
    """
    _resolve(location)
    result = AzcopyRun()

    def handle(event: Event) -> None:
        if event.kind in (PROGRESS, END) and event.content:
            result.failed.update({str(one.get("Src")): one for one in event.failed})
            result.end = event
            result.busy = max(result.busy, event.number("ServerBusyPercentage"))
            result.network_errors = event.number("NetworkErrorPercentage")
            if on_progress:
                on_progress(_progress(event))
        elif event.kind == INIT:
            result.log = str(event.content.get("LogFileLocation") or "")
        elif event.kind in (INFO, ERROR):
            result.events.append(redacted(event.text))
        if on_event:
            on_event(event)

    limits = tool.limits
    began = time.monotonic()
    try:
        result.rc = run_azcopy(
            [tool.program, *words, "--output-type", "json", "--log-level", "ERROR"],
            _variables(tool),
            handle,
            limits.total_s,
            limits.stall_s,
        )
    except Ended as ended:
        result.rc = -1
        result.why = STALLED if ended.stalled else OVERDUE
        tail = _tail(result.log)
        if result.busy or _RETRIED.search(tail) or any(why_of(text) == THROTTLED for text in (tail, *result.events)):
            result.why = THROTTLED
        elif ended.stalled and result.network_errors:
            result.why = UNREACHABLE
        limit = f"no progress for {limits.stall_s:g} s" if ended.stalled else f"not done within {limits.total_s:g} s"
        result.words = sentence_of(result.why, limit)
    except OSError as error:
        raise BlobError(f"{sentence_of(NO_AZCOPY)} ({tool.program}: {error.strerror}).", NO_AZCOPY) from None
    result.seconds = time.monotonic() - began
    _explain(result)
    return result


def _explain(result: AzcopyRun) -> None:
    """Set the cause of a failure from the exit status, if it is not known from the failed transfers."""
    if result.rc < 0 and not result.why:
        # For example at the end of a job, when Slurm signals all of its processes.
        result.why, result.words = OTHER, f"azcopy was ended by signal {-result.rc}"
    if result.rc > 0 and not result.failed:
        text = next((one for one in reversed(result.events) if why_of(one) != OTHER), "\n".join(result.events[-2:]))
        result.why = why_of(text)
        result.words = sentence_of(result.why, "" if result.why != OTHER else _short(text))


def write_list(tool: Azcopy, names: Sequence[str]) -> str:
    """Write the names to a file that only this user can read, and return its path."""
    import tempfile

    os.makedirs(tool.folder, mode=0o700, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix="list.", suffix=".txt", dir=tool.folder)
    with open(handle, "wb") as file:
        file.write("".join(f"{name}\n" for name in names).encode())
    return path


def log_lines(result: AzcopyRun) -> dict[str, str]:
    """Return the messages of azcopy's log about failed transfers, by their source URL or path."""
    found = {}
    with contextlib.suppress(OSError), open(result.log, encoding="utf-8", errors="replace") as file:
        for line in file:
            for mark in ("DOWNLOADFAILED: ", "UPLOADFAILED: ", "COPYFAILED: ", "DELETEFAILED: "):
                if mark in line:
                    source, _code, words = line.partition(mark)[2].partition(" : ")
                    found[source.partition("?")[0].strip()] = redacted(words.strip())
    return found


def _variables(tool: Azcopy) -> dict[str, str]:
    os.makedirs(tool.folder, mode=0o700, exist_ok=True)
    ours = tool.credential.variables(os.environ)
    # The user's home may have azcopy settings and an earlier login, which must not be used here.
    ours.update(
        HOME=tool.folder,
        AZCOPY_LOG_LOCATION=f"{tool.folder}/logs",
        AZCOPY_JOB_PLAN_LOCATION=f"{tool.folder}/plans",
        AZCOPY_DISABLE_SYSLOG="true",
        # A file gets its final name only when it is complete.
        AZCOPY_DOWNLOAD_TO_TEMP_PATH="true",
    )
    if tool.limits.connections:
        ours["AZCOPY_CONCURRENCY_VALUE"] = str(tool.limits.connections)
    return ours


def _progress(event: Event) -> Progress:
    return Progress(
        files=int(event.number("TransfersCompleted")),
        bytes_done=int(event.number("TotalBytesTransferred")),
        bytes_expected=int(event.number("TotalBytesExpected")),
        busy_percent=event.number("ServerBusyPercentage"),
    )


def _resolve(location: BlobLocation) -> None:
    """Resolve the account's name first: azcopy retries for minutes before it reports an unknown name."""
    if any(os.environ.get(name) for name in _PROXIES):
        # The proxy resolves the name.
        return
    answers: list[str] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(location.host, location.port or 443, type=socket.SOCK_STREAM)
            answers.append("")
        except OSError as error:
            answers.append(error.strerror or str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_RESOLVE_S)
    problem = answers[0] if answers else f"no answer within {_RESOLVE_S:g} s"
    if problem:
        raise BlobError(f"{location.host}: {sentence_of(UNRESOLVED, problem)}.", UNRESOLVED)


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16384))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _short(text: str) -> str:
    return " ".join(text.split())[:300]


_TERM_S = 3.0

OnEvent = Callable[[Event], None]


class Ended(RuntimeError):
    """azcopy was stopped before it finished.

    :ivar stalled: True if there was no progress, False if the total timeout was reached.
    """

    def __init__(self, stalled: bool, seconds: float) -> None:
        super().__init__(f"within {seconds:g} s")
        self.stalled = stalled


def run_azcopy(
    command: Sequence[str], variables: Mapping[str, str], on_event: OnEvent, total_s: float, stall_s: float
) -> int:
    """Run azcopy, pass each line of its output to ``on_event``, and return its exit status.

    azcopy is killed when this process ends, even if this process is killed. At a timeout it gets SIGTERM first, so that
    it can remove incomplete files.

    :raises Ended: it reached the total timeout, or made no progress for too long.
    :raises OSError: it cannot be started.
    """
    if not shutil.which(command[0], path=variables.get("PATH")):
        raise FileNotFoundError(2, "command not found", command[0])
    lines = _Lines(on_event)
    ended = follow(
        [*bound_to_this_process("KILL"), *command],
        variables,
        lines.take,
        total_s,
        stall_s,
        _TERM_S,
    )
    lines.take(b"\n")
    if ended.cut or ended.rc is None:
        raise Ended(ended.cut == STALL, stall_s if ended.cut == STALL else total_s)
    return ended.rc


class _Lines:
    """Splits azcopy's output into lines."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._begun = b""
        self._mark = ""

    def take(self, chunk: bytes) -> bool:
        """Pass on the lines that are now complete, and return whether one of them reports progress."""
        *lines, self._begun = (self._begun + chunk).split(b"\n")
        before = self._mark
        for line in lines:
            text = line.decode("utf-8", "replace").strip()
            if text:
                event = event_of(text)
                self._mark = _mark(event)
                self._on_event(event)
        return self._mark != before


def _mark(event: Event) -> str:
    """Return a value that changes when there is progress; a retry is not progress."""
    if event.kind not in (PROGRESS, END, INIT):
        return event.text
    keys = ("TransfersCompleted", "TransfersFailed", "TotalBytesTransferred", "TotalTransfers")
    return "|".join(str(event.content.get(key)) for key in keys)
