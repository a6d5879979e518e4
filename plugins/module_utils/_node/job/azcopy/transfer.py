# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Listing and carrying blobs: down, up, and away."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from ..grants.protocol import DELETE, WRITE
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
from .place import Place, check_names
from .tool import Azcopy, OnProgress, Said, call, log_lines, write_list

_SKIPPED = re.compile(r"Skipping (?P<name>.*?) as it cannot be scanned due to error: (?P<error>.*)", re.DOTALL)


def download(
    tool: Azcopy,
    place: Place,
    names: Sequence[str],
    folder: str,
    on_progress: OnProgress | None = None,
    listed: int = 0,
    patterns: Sequence[str] = (),
    taken: Callable[[str], bool] | None = None,
) -> Outcome:
    """Copy blobs, by their names below ``place``, to the same names below ``folder``, as they are stored.

    What lies there under these names is removed first. An MD5 that is stored with a blob is checked.

    :param listed: how many blobs there are below the place, if that is known: then azcopy lists them where that is
        quicker than to ask for each by itself.
    :param patterns: of file names, that stand for exactly these. What has come since and matches comes along.
    :param taken: whether somebody has taken a file away that had arrived.
    :raises NameRefused: azcopy cannot carry a name; then nothing was done.
    :raises BlobError: azcopy could not be started, access is not granted, or the account's name is unknown.
    """
    check_names(names)
    if not names:
        return Outcome()
    os.makedirs(folder, exist_ok=True)
    for name in names:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(os.path.join(folder, name))
    limits = tool.limits
    words = ["copy", tool.credential.sign(place.address), folder, "--from-to", "BlobLocal", *_capped(tool)]
    words += ["--block-size-mb", f"{limits.block_mib:g}"] if limits.block_mib else []
    words += ["--as-subdir=false", "--check-md5", "FailIfDifferent"]
    chosen = filter_for(names, listed, patterns)
    if chosen:
        said = call(tool, [*words, *chosen], place, on_progress)
    else:
        said = _with_list(tool, words, names, place, on_progress)
    # In this order: what is not there any more was taken before.
    absent = [name for name in names if not os.path.isfile(os.path.join(folder, name)) and not (taken and taken(name))]
    return _outcome(said, place, names, absent)


def upload(
    tool: Azcopy,
    folder: str,
    names: Sequence[str],
    place: Place,
    encoding: str = "",
    on_progress: OnProgress | None = None,
) -> Outcome:
    """Copy files, by their names below ``folder``, to the same names below ``place``, with their MD5.

    :param encoding: the Content-Encoding to store with them, such as ``gzip`` for files that are compressed.
    :raises NameRefused: azcopy cannot carry a name; then nothing was done.
    :raises BlobError: azcopy could not be started, access is not granted, or the account's name is unknown.
    """
    check_names(names)
    gone = [name for name in names if not os.path.isfile(os.path.join(folder, name))]
    if gone:
        return Outcome(tuple(Failure(name, OTHER, f"there is no such file below {folder}") for name in gone))
    if not names:
        return Outcome()
    words = ["copy", folder, tool.credential.sign(place.address, WRITE), "--from-to", "LocalBlob", *_capped(tool)]
    words += ["--as-subdir=false", "--put-md5", "--follow-symlinks", "--blob-type", "BlockBlob"]
    words += ["--content-encoding", encoding] if encoding else []
    said = _with_list(tool, words, names, place, on_progress)
    return _outcome(said, place, names, [], folder)


def remove(tool: Azcopy, place: Place, names: Sequence[str]) -> Outcome:
    """Remove blobs. One that is gone already is no failure.

    :raises NameRefused: azcopy cannot carry a name; then nothing was done.
    :raises BlobError: azcopy could not be started, access is not granted, or the account's name is unknown.
    """
    check_names(names)
    if not names:
        return Outcome()
    words = ["remove", tool.credential.sign(place.address, DELETE), "--from-to", "BlobTrash"]
    done = _outcome(_with_list(tool, words, names, place, None), place, names, [])
    left = tuple(failure for failure in done.failures if failure.why != VANISHED)
    why, words_ = (done.why, done.words) if done.why != VANISHED else ("", "")
    return Outcome(left, why, words_, done.bytes_over_wire, done.seconds, done.log)


def _capped(tool: Azcopy) -> list[str]:
    return ["--cap-mbps", f"{tool.limits.cap_mbps:g}"] if tool.limits.cap_mbps else []


def _with_list(
    tool: Azcopy, words: Sequence[str], names: Sequence[str], place: Place, on_progress: OnProgress | None
) -> Said:
    path = write_list(tool, names)
    try:
        return call(tool, [*words, "--list-of-files", path], place, on_progress)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _outcome(
    said: Said, place: Place, names: Sequence[str], absent: Sequence[str], folder: str | None = None
) -> Outcome:
    failures = _failures(said, place, folder)
    for name in absent:
        if name not in failures and not said.why:
            # Without a word: azcopy takes a blob that is gone for an empty folder.
            failures[name] = Failure(name, VANISHED, sentence_of(VANISHED))
    why, words = said.why, said.words
    carried = int(said.end.number("TransfersCompleted")) if said.end else 0
    if folder is not None and not why and not failures and carried < len(names):
        why, words = OTHER, f"azcopy carried {carried} of {len(names)} files and does not say why"
    return Outcome(
        tuple(failures[name] for name in sorted(failures)),
        why,
        words,
        int(said.end.number("BytesOverWire")) if said.end else 0,
        said.seconds,
        said.log,
    )


def _failures(said: Said, place: Place, folder: str | None) -> dict[str, Failure]:
    found = {}
    for text in said.events:
        skipped = _SKIPPED.search(text)
        if skipped:
            name, why = skipped["name"], why_of(skipped["error"])
            found[name] = Failure(name, why, sentence_of(why, "" if why != OTHER else skipped["error"][:200]))
    told = log_lines(said) if said.failed else {}
    for source, one in said.failed.items():
        found_name = _name_of(source, place, folder)
        line = told.get(source, "")
        why = why_of_code(str(one.get("ErrorCode")), line or " ".join(said.events[-2:]))
        found[found_name] = Failure(found_name, why, sentence_of(why, "" if why != OTHER else _detail(one, line)))
    return found


def _name_of(source: str, place: Place, folder: str | None) -> str:
    if folder is not None:
        return os.path.relpath(source, folder)
    plain = source.partition("?")[0]
    for start in (f"{place.url}/{quote(place.prefix)}", f"{place.url}/{place.prefix}"):
        if plain.startswith(start):
            return unquote(plain[len(start) :])
    return unquote(plain)


def _detail(one: Mapping[str, Any], line: str) -> str:
    return line[:200] or f"azcopy's error code is {one.get('ErrorCode')}"


_PROPERTIES = "ContentMD5;ContentEncoding;LastModifiedTime"


def list_blobs(tool: Azcopy, place: Place) -> list[Blob]:
    """Return all blobs below a place, sorted by name; none where there are none.

    Folders of a hierarchical account, which are listed as blobs of their own, are left out.

    :raises BlobError: they could not be listed, or not all.
    """
    found: list[Blob] = []
    strange: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == LISTED:
            try:
                found.append(blob_of(event))
            except ValueError as error:
                strange.append(str(error))

    words = ["list", tool.credential.sign(place.address), "--location", "Blob", "--machine-readable"]
    said = call(tool, [*words, "--properties", _PROPERTIES], place, on_event=hear)
    if said.rc or strange:
        raise BlobError(f"{place.address} cannot be listed: {said.words or strange[0]}.", said.why)
    return sorted((blob for blob in found if not blob.name.endswith("/")), key=lambda blob: blob.name)


_BLOBS_A_REQUEST = 5000
# Linux takes 128 KiB in one argument.
_LONGEST_EXPRESSION = 120_000
_PLAIN = frozenset("/-_, =@~!#%&'\"<>:")


def filter_for(names: Sequence[str], listed: int, patterns: Sequence[str] = ()) -> list[str] | None:
    """Return the words that make azcopy list the container and download these; None where a list of files is better.

    With a list of files it asks for each of them before it brings the first 10,000, one after the other. Where it gets
    an expression it lists the container, 5,000 blobs a request, which costs less where that is known to be small.

    :param listed: how many blobs there are below the place; 0 if nobody knows.
    :param patterns: of file names, that stand for exactly these among the blobs.
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
    """The expression for a name itself. A ';' would end it for azcopy, so what is not plain stands as its number."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"\\x{{{ord(char):x}}}" for char in name)
