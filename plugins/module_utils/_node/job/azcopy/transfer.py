# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Lists, downloads, uploads and removes blobs."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from ..grants.protocol import DELETE, WRITE
from .location import BlobLocation, check_names
from .output import (
    LISTED,
    OTHER,
    VANISHED,
    Blob,
    BlobError,
    Event,
    Failure,
    Outcome,
    blob_of,
    sentence_of,
    why_of,
    why_of_code,
)
from .tool import Azcopy, AzcopyRun, OnProgress, call, log_lines, write_list

_SKIPPED = re.compile(r"Skipping (?P<name>.*?) as it cannot be scanned due to error: (?P<error>.*)", re.DOTALL)


def download(
    tool: Azcopy,
    location: BlobLocation,
    names: Sequence[str],
    folder: str,
    on_progress: OnProgress | None = None,
    listed: int = 0,
    patterns: Sequence[str] = (),
    is_received: Callable[[str], bool] | None = None,
) -> Outcome:
    """Copy blobs, by their names below ``location``, to the same names below ``folder``, as they are stored.

    Existing files with these names are removed first. An MD5 that is stored with a blob is verified.

    :param listed: how many blobs are below the location, if that is known: then azcopy lists the container if that
        is faster than one request per blob.
    :param patterns: of file names that match exactly these blobs. Matching blobs created since then are copied as well.
    :param is_received: whether a file arrived and was then moved away.
    :raises NameRefused: azcopy cannot transfer a name; then nothing was done.
    :raises BlobError: azcopy cannot be started, access is not granted, or the account's name cannot be resolved.
    """
    check_names(names)
    if not names:
        return Outcome()
    os.makedirs(folder, exist_ok=True)
    for name in names:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(folder, name))
    limits = tool.limits
    words = ["copy", tool.credential.sign(location.address), folder, "--from-to", "BlobLocal", *_capped(tool)]
    words += ["--block-size-mb", f"{limits.block_mib:g}"] if limits.block_mib else []
    words += ["--as-subdir=false", "--check-md5", "FailIfDifferent"]
    chosen = filter_for(names, listed, patterns)
    if chosen:
        result = call(tool, [*words, *chosen], location, on_progress)
    else:
        result = _with_list(tool, words, names, location, on_progress)
    # Check the file first: it may be moved away, and marked as received, between the two checks.
    absent = [
        name
        for name in names
        if not os.path.isfile(os.path.join(folder, name)) and not (is_received and is_received(name))
    ]
    return _outcome(result, location, names, absent)


def upload(
    tool: Azcopy,
    folder: str,
    names: Sequence[str],
    location: BlobLocation,
    encoding: str = "",
    on_progress: OnProgress | None = None,
    follow_links: bool = True,
) -> Outcome:
    """Copy files, by their names below ``folder``, to the same names below ``location``, with their MD5.

    :param encoding: the Content-Encoding to store with them, such as ``gzip`` for compressed files.
    :param follow_links: upload the files that symbolic links lead to.
    :raises NameRefused: azcopy cannot transfer a name; then nothing was done.
    :raises BlobError: azcopy cannot be started, access is not granted, or the account's name cannot be resolved.
    """
    check_names(names)
    gone = [name for name in names if not os.path.isfile(os.path.join(folder, name))]
    if gone:
        return Outcome(tuple(Failure(name, OTHER, f"no such file below {folder}") for name in gone))
    if not names:
        return Outcome()
    words = ["copy", folder, tool.credential.sign(location.address, WRITE), "--from-to", "LocalBlob", *_capped(tool)]
    words += ["--as-subdir=false", "--put-md5", "--blob-type", "BlockBlob"]
    words += ["--follow-symlinks"] if follow_links else []
    words += ["--content-encoding", encoding] if encoding else []
    result = _with_list(tool, words, names, location, on_progress)
    return _outcome(result, location, names, [], folder)


def remove(tool: Azcopy, location: BlobLocation, names: Sequence[str]) -> Outcome:
    """Remove blobs. A blob that does not exist is not a failure.

    :raises NameRefused: azcopy cannot transfer a name; then nothing was done.
    :raises BlobError: azcopy cannot be started, access is not granted, or the account's name cannot be resolved.
    """
    check_names(names)
    if not names:
        return Outcome()
    words = ["remove", tool.credential.sign(location.address, DELETE), "--from-to", "BlobTrash"]
    done = _outcome(_with_list(tool, words, names, location, None), location, names, [])
    failures = tuple(failure for failure in done.failures if failure.why != VANISHED)
    why, words_ = (done.why, done.words) if done.why != VANISHED else ("", "")
    return Outcome(failures, why, words_, done.bytes_over_wire, done.seconds, done.log)


def _capped(tool: Azcopy) -> list[str]:
    return ["--cap-mbps", f"{tool.limits.cap_mbps:g}"] if tool.limits.cap_mbps else []


def _with_list(
    tool: Azcopy, words: Sequence[str], names: Sequence[str], location: BlobLocation, on_progress: OnProgress | None
) -> AzcopyRun:
    path = write_list(tool, names)
    try:
        return call(tool, [*words, "--list-of-files", path], location, on_progress)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _outcome(
    result: AzcopyRun, location: BlobLocation, names: Sequence[str], absent: Sequence[str], folder: str | None = None
) -> Outcome:
    failures = _failures(result, location, folder)
    for name in absent:
        if name not in failures and not result.why:
            # azcopy reports nothing here: it treats a missing blob as an empty folder.
            failures[name] = Failure(name, VANISHED, sentence_of(VANISHED))
    why, words = result.why, result.words
    carried = int(result.end.number("TransfersCompleted")) if result.end else 0
    if folder is not None and not why and not failures and carried < len(names):
        why, words = OTHER, f"azcopy transferred {carried} of {len(names)} files and reported no error"
    return Outcome(
        tuple(failures[name] for name in sorted(failures)),
        why,
        words,
        int(result.end.number("BytesOverWire")) if result.end else 0,
        result.seconds,
        result.log,
    )


def _failures(result: AzcopyRun, location: BlobLocation, folder: str | None) -> dict[str, Failure]:
    found = {}
    for text in result.events:
        skipped = _SKIPPED.search(text)
        if skipped:
            name, why = skipped["name"], why_of(skipped["error"])
            found[name] = Failure(name, why, sentence_of(why, "" if why != OTHER else skipped["error"][:200]))
    lines = log_lines(result) if result.failed else {}
    for source, one in result.failed.items():
        found_name = _name_of(source, location, folder)
        line = lines.get(source, "")
        why = why_of_code(str(one.get("ErrorCode")), line or " ".join(result.events[-2:]))
        found[found_name] = Failure(found_name, why, sentence_of(why, "" if why != OTHER else _detail(one, line)))
    return found


def _name_of(source: str, location: BlobLocation, folder: str | None) -> str:
    if folder is not None:
        return os.path.relpath(source, folder)
    path = source.partition("?")[0]
    for start in (f"{location.url}/{quote(location.prefix)}", f"{location.url}/{location.prefix}"):
        if path.startswith(start):
            return unquote(path[len(start) :])
    return unquote(path)


def _detail(one: Mapping[str, Any], line: str) -> str:
    return line[:200] or f"azcopy's error code is {one.get('ErrorCode')}"


_PROPERTIES = "ContentMD5;ContentEncoding;LastModifiedTime"


def list_blobs(tool: Azcopy, location: BlobLocation, most: int = 0) -> list[Blob]:
    """Return all blobs below a location, sorted by name.

    An account with a hierarchical namespace lists folders as blobs; they are left out.

    :param most: stop if there are more; 0 for any number.
    :raises BlobError: the blobs cannot be listed completely.
    """
    found: list[Blob] = []
    strange: list[str] = []

    def handle(event: Event) -> None:
        if event.kind == LISTED:
            try:
                found.append(blob_of(event))
            except ValueError as error:
                strange.append(str(error))
            if most and len(found) > most:
                raise BlobError(f"{location.address} has more than {most} blobs, too many to read.", OTHER)

    words = ["list", tool.credential.sign(location.address), "--location", "Blob", "--machine-readable"]
    result = call(tool, [*words, "--properties", _PROPERTIES], location, on_event=handle)
    if result.rc or strange:
        raise BlobError(f"{location.address} cannot be listed: {result.words or strange[0]}.", result.why)
    return sorted((blob for blob in found if not blob.name.endswith("/")), key=lambda blob: blob.name)


_BLOBS_A_REQUEST = 5000
# Linux takes 128 KiB in one argument.
_LONGEST_EXPRESSION = 120_000
_LITERAL_CHARACTERS = frozenset("/-_, =@~!#%&'\"<>:")


def filter_for(names: Sequence[str], listed: int, patterns: Sequence[str] = ()) -> list[str] | None:
    """Return the arguments that make azcopy list the container and download these; None if a list of files is better.

    With a list of files azcopy sends one request for each of the first 10,000, one after the other, before it downloads
    any. With an expression it lists the container, 5,000 blobs per request, which is faster for small containers.

    :param listed: how many blobs are below the location; 0 if unknown.
    :param patterns: of file names that match exactly these blobs.
    """
    if patterns:
        return ["--recursive", "--include-pattern", ";".join(patterns)]
    if not listed or listed / _BLOBS_A_REQUEST + 1 > len(names):
        return None
    if listed == len(names):
        return ["--recursive"]
    expression = f"^(?:{'|'.join(map(_literal, names))})$"
    return ["--recursive", "--include-regex", expression] if len(expression.encode()) <= _LONGEST_EXPRESSION else None


def _literal(name: str) -> str:
    """Return a regular expression for a name. azcopy splits at ';', so special characters become their code points."""
    return "".join(char if char.isalnum() or char in _LITERAL_CHARACTERS else f"\\x{{{ord(char):x}}}" for char in name)
