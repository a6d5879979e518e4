# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Stages one shard: copies missing and wrong files, and keeps correct ones."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..azcopy.output import FULL, Blob, Failure, Outcome, sentence_of
from ..azcopy.tool import Azcopy, Progress
from ..azcopy.transfer import download
from .listing import Listing
from .manifest import Header, Journal, Staged, entries_of, file_name, problem_with
from .options import StageOptions, check_sums, is_unpacked, names_for, paths_of, selected
from .plan import shards_of
from .receive import Receiver, files_below

_EVERY_S = 10.0
_INCOMING = re.compile(r"incoming-(\d+)-of-\d+-[0-9a-f]+")


class DiskFull(RuntimeError):
    """The disk is full, so the copy can stop."""


@dataclass(frozen=True)
class StageResult:
    """The result of staging a shard.

    :ivar digest: of the listing.
    :ivar files: how many files the shard has.
    :ivar size: their stored size in bytes.
    :ivar kept: how many were there already.
    :ivar copied: how many were copied.
    :ivar bytes_copied: the stored size of the copied files in bytes.
    :ivar bytes_over_wire: bytes that azcopy transferred.
    :ivar problem: the error in one line; empty if there is none.
    :ivar left: names that are not staged.
    :ivar logs: the folder of azcopy's logs and plans, which is kept only after a failure.
    """

    digest: str
    files: int
    size: int
    kept: int
    copied: int
    bytes_copied: int
    bytes_over_wire: int
    seconds: float
    problem: str = ""
    left: tuple[str, ...] = ()
    logs: str = ""

    def in_words(self) -> str:
        """Return the result in one line."""
        if self.problem:
            logs = f"; azcopy's logs are in {self.logs}" if self.logs else ""
            return f"{len(self.left)} of {self.files} files are not staged: {self.problem}{logs}"
        rate = f" at {in_units(self.bytes_copied / self.seconds)}/s" if self.copied and self.seconds else ""
        return (
            f"{self.files} files, {in_units(self.size)}: {self.copied} copied ({in_units(self.bytes_copied)}{rate}), "
            f"{self.kept} already there"
        )


@dataclass(frozen=True)
class MissingFiles:
    """The missing files of a shard.

    :ivar blobs: all blobs of the shard, by name.
    :ivar paths: their paths below the target, by name.
    :ivar known: those that are already there, by name.
    :ivar missing: the names of the others.
    :ivar patterns: patterns for azcopy that can replace a list of all names.
    """

    blobs: Mapping[str, Blob]
    paths: Mapping[str, str]
    known: Mapping[str, Staged]
    missing: Sequence[str]
    patterns: Sequence[str]


def need_of(options: StageOptions, listing: Listing) -> MissingFiles:
    """Return the missing files of the shard. Changes nothing.

    :raises StageOptionsError: no blob is selected, or the blobs are not those of the expected sums.
    :raises NameRefused: two blobs would have conflicting paths on disk.
    """
    chosen = selected(listing.blobs, options.pattern)
    all_paths = paths_of(chosen, options.decompress)
    check_sums(all_paths.values(), options)
    names, patterns = names_for(chosen, options)
    mine = set(names)
    blobs = {blob.name: blob for blob in chosen if blob.name in mine}
    paths = {name: all_paths[name] for name in names}
    entries = entries_of(options.state)
    known = {}
    for name in names:
        form = (paths[name], is_unpacked(blobs[name], options.decompress))
        for staged in entries.get(name, ()):
            is_expected = options.sums is None or options.sums[staged.path] == staged.sha256
            if staged.is_of(blobs[name]) and (staged.path, staged.unpacked) == form and is_expected:
                if not problem_with(staged, options.target, options.full):
                    known[name] = staged
                break
    return MissingFiles(blobs, paths, known, [name for name in names if name not in known], patterns)


def stage(
    options: StageOptions,
    tool: Azcopy,
    listing: Listing,
    on_progress: Callable[[ShardProgress], None] | None = None,
    every_s: float = _EVERY_S,
) -> StageResult:
    """Stage one shard.

    :param tool: its limits apply to each azcopy.
    :param on_progress: gets the progress.
    :raises BlobError: azcopy cannot be started, or the account's name cannot be resolved.
    """
    need = need_of(options, listing)
    number, count = options.shard
    os.makedirs(options.state, exist_ok=True)
    header = Header(listing.digest, number, count, options.pattern, options.decompress)
    # A file left by a run with another listing may be an older version of a blob, with the same size.
    incoming = os.path.join(options.state, f"incoming-{number:05d}-of-{count:05d}-{listing.digest}")
    _clear_others(incoming, number, count)
    arrived = _tidy(incoming, need)
    names = [name for name in need.missing if name not in arrived]
    lacking = _room_lacking(options.target, sum(need.blobs[name].size for name in names))
    journal = Journal(os.path.join(options.state, file_name(number, count)), header, need.known)
    missing_blobs = {name: need.blobs[name] for name in need.missing}
    receiver = Receiver(
        incoming, options.target, missing_blobs, need.paths, journal, options.decompress, options.workers, options.sums
    )
    watch = ProgressMeter(len(names), sum(need.blobs[name].size for name in names), on_progress, every_s)
    try:
        receiver.start()
        try:
            outcomes = (
                _carry(options, tool, need, names, incoming, receiver, watch, len(listing.blobs)) if not lacking else []
            )
        finally:
            receiver.finish()
    finally:
        journal.close()
    seconds = watch.progress.seconds
    if on_progress and names:
        on_progress(watch.progress)
    problem, not_staged = _judge(outcomes, receiver, need.missing, lacking)
    shutil.rmtree(incoming, ignore_errors=True)
    if not problem:
        shutil.rmtree(tool.folder, ignore_errors=True)
    staged = receiver.staged
    return StageResult(
        digest=listing.digest,
        files=len(need.blobs),
        size=sum(blob.size for blob in need.blobs.values()),
        kept=len(need.known),
        copied=len(staged),
        bytes_copied=sum(one.stored for one in staged.values()),
        bytes_over_wire=sum(outcome.bytes_over_wire for outcome in outcomes),
        seconds=seconds,
        problem=problem,
        left=tuple(not_staged),
        logs=tool.folder if problem and os.path.isdir(tool.folder) else "",
    )


def _carry(
    options: StageOptions,
    tool: Azcopy,
    need: MissingFiles,
    names: Sequence[str],
    incoming: str,
    receiver: Receiver,
    watch: ProgressMeter,
    listed: int,
) -> list[Outcome]:
    """Run the azcopies.

    :param listed: how many blobs are below the source.
    """
    if not names:
        return []
    # Patterns match the whole shard: if a part of it is already there, a list copies less.
    patterns = need.patterns if len(names) == len(need.blobs) and options.processes == 1 else []
    shards = [shard for shard in shards_of([need.blobs[name] for name in names], options.processes) if shard]

    def carry(number: int) -> Outcome:
        def note(progress: Progress) -> None:
            if receiver.is_full:
                raise DiskFull
            watch.note(number, progress.files, progress.bytes_done, progress.busy_percent)

        own_tool = replace(tool, folder=os.path.join(tool.folder, str(number)))
        try:
            return download(
                own_tool, options.location, shards[number], incoming, note, listed, patterns, receiver.has_received
            )
        except DiskFull:
            return Outcome(why=FULL, words=sentence_of(FULL))

    with ThreadPoolExecutor(max_workers=len(shards)) as pool:
        return list(pool.map(carry, range(len(shards))))


def _judge(
    outcomes: Sequence[Outcome], receiver: Receiver, missing: Sequence[str], lacking: str
) -> tuple[str, list[str]]:
    """Return the error in one line, and the names that are not staged."""
    staged = receiver.staged
    not_staged = [name for name in missing if name not in staged]
    if not not_staged:
        # All files are there and verified, so azcopy's errors do not matter.
        return "", []
    if lacking:
        return lacking, not_staged
    failures: dict[str, Failure] = {}
    failed_run = next((outcome for outcome in outcomes if outcome.why), Outcome())
    for outcome in outcomes:
        failures.update({failure.name: failure for failure in outcome.failures})
    failures.update(receiver.failures)
    named = tuple(failures[name] for name in not_staged if name in failures)
    sentence = Outcome(named, failed_run.why, failed_run.words).sentence()
    return sentence or f"{not_staged[0]!r} and others did not arrive, and azcopy reported no error", not_staged


def _clear_others(incoming: str, number: int, count: int) -> None:
    """Remove files that killed runs with other listings or shard counts left; together, all nodes remove all."""
    state, current = os.path.split(incoming)
    for name in os.listdir(state):
        found = _INCOMING.fullmatch(name)
        if found and name != current and int(found[1]) % count == number:
            shutil.rmtree(os.path.join(state, name), ignore_errors=True)


def _tidy(incoming: str, need: MissingFiles) -> set[str]:
    """Remove incomplete files that a killed run left, and return the names of the complete ones."""
    found: set[str] = set()
    missing = set(need.missing)
    for name in list(files_below(incoming)):
        path = os.path.join(incoming, name)
        # azcopy gives a file its final name only when it is complete.
        if name in missing and os.path.getsize(path) == need.blobs[name].size:
            found.add(name)
        else:
            os.unlink(path)
    os.makedirs(incoming, exist_ok=True)
    return found


def _room_lacking(target: str, needed: int) -> str:
    """Return a message if the disk has too little space; an empty text if there is enough, or that is unknown."""
    with contextlib.suppress(OSError):
        facts = os.statvfs(target)
        free = facts.f_bavail * facts.f_frsize
        if needed > free:
            return f"{sentence_of(FULL)}: {in_units(needed)} must be copied, but {target} has {in_units(free)} free"
    return ""


@dataclass(frozen=True)
class ShardProgress:
    """The progress of a shard.

    :ivar busy_percent: share of recent requests that the account throttled.
    """

    files: int
    of_files: int
    bytes_done: int
    of_bytes: int
    seconds: float
    busy_percent: float

    def figures(self) -> dict[str, float]:
        """Return the progress for the node's metrics service."""
        done = {"files_done": self.files, "bytes_done": self.bytes_done}
        return {"files": self.of_files, "bytes": self.of_bytes, **done}

    def in_words(self) -> str:
        """Return the progress in one line."""
        rate = self.bytes_done / self.seconds if self.seconds else 0.0
        remaining_s = (self.of_bytes - self.bytes_done) / rate if rate else 0.0
        words = f"{self.files} of {self.of_files} files, {in_units(self.bytes_done)} of {in_units(self.of_bytes)}"
        words += f", {in_units(rate)}/s"
        words += f", about {remaining_s:.0f} s left" if self.bytes_done < self.of_bytes and rate else ""
        return words + (f", the account throttles {self.busy_percent:.0f} % of requests" if self.busy_percent else "")


class ProgressMeter:
    """Adds up the progress of several azcopies, and reports it at most every ``every_s`` seconds."""

    def __init__(
        self, of_files: int, of_bytes: int, on_progress: Callable[[ShardProgress], None] | None, every_s: float
    ) -> None:
        self._of_files, self._of_bytes, self._on_progress, self._every_s = of_files, of_bytes, on_progress, every_s
        self._carried: dict[int, tuple[int, int, float]] = {}
        self._began = self._reported_at = time.monotonic()
        self._lock = threading.Lock()

    def note(self, process: int, files: int, carried: int, busy: float) -> None:
        """Record the progress of one azcopy."""
        with self._lock:
            self._carried[process] = (files, carried, busy)
            now = time.monotonic()
            if self._on_progress and now - self._reported_at >= self._every_s:
                self._reported_at = now
                self._on_progress(self.progress)

    @property
    def progress(self) -> ShardProgress:
        """The progress of all azcopies together."""
        files = sum(one[0] for one in self._carried.values())
        carried = sum(one[1] for one in self._carried.values())
        busy = max((one[2] for one in self._carried.values()), default=0.0)
        return ShardProgress(
            min(files, self._of_files),
            self._of_files,
            min(carried, self._of_bytes),
            self._of_bytes,
            time.monotonic() - self._began,
            busy,
        )


def in_units(number: float) -> str:
    """Return a number of bytes with a decimal unit, such as 1.5 GB."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} bytes"
