# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Reads the items of the catalogue one after another, and keeps secrets out of what they return."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..machine.root import Root
from . import reading, settings
from .item import JSON, RESULTS, SLURM, TEXT, VARIABLES, Command, Facts, Files, Item, Tool
from .pseudonyms import Pseudonyms
from .reading import Raw, in_child, may_be_opened
from .redact import Redactor

TOTAL_S = 300.0
"""Time limit of all items together, in seconds."""
_FINISH_S = 60.0
"""Time limit for what is replaced after the last item. The arbiter waits 400 s for the archive of a faulty node."""
MOST_TOTAL = 48 << 20
"""Size limit of all texts together, in bytes: they are kept in memory, because the disk may be full."""

ReadCommand = Callable[[Sequence[str], float, int], Raw]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Entry:
    """What became of an item.

    :ivar text: without secrets; empty if nothing could be read.
    :ivar exit: exit status of the command; None for files and facts.
    :ivar cut: why something is missing: ``size``, ``time``; empty if nothing is.
    :ivar redacted: how many values were hidden.
    :ivar note: one line about what could not be read.
    """

    item: Item
    text: str = ""
    exit: int | None = None
    seconds: float = 0.0
    cut: str = ""
    redacted: int = 0
    note: str = ""

    @property
    def file(self) -> str:
        """Its path in the archive; empty if nothing was read."""
        return f"items/{self.item.name}.txt" if self.text else ""

    def as_index(self) -> dict[str, Any]:
        """Return its entry of the index."""
        return {
            "name": self.item.name,
            "title": self.item.title,
            "holds": self.item.holds,
            "file": self.file,
            "bytes": len(self.text.encode("utf-8", "replace")),
            "exit": self.exit,
            "seconds": round(self.seconds, 2),
            "cut": self.cut,
            "redacted": self.redacted,
            "note": self.note,
        }


@dataclass
class Collector:
    """Collects the items of one bundle.

    :ivar limit_s: time limit of all items together.
    :ivar pseudonyms: replaces names; None to keep them.
    :ivar read_command: runs a command; tests pass recorded ones.
    """

    root: Root
    limit_s: float = TOTAL_S
    pseudonyms: Pseudonyms | None = None
    read_command: ReadCommand = reading.read_command
    redactor: Redactor = field(default_factory=Redactor)

    def collect(self, items: Sequence[Item], report: Report = lambda _name, _number, _of: None) -> list[Entry]:
        """Read the items. No item raises: what could not be read has a note.

        :param report: is called before each item with its name, its number from 1, and the number of items.
        """
        deadline = time.monotonic() + self.limit_s
        size = 0
        entries = []
        for place, item in enumerate(items, start=1):
            report(item.name, place, len(items))
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or size >= MOST_TOTAL:
                limit = "time" if remaining_s <= 0 else "size"
                entries.append(Entry(item, cut=limit, note=f"not read: the {limit} limit of the bundle was reached"))
                continue
            entry = self._entry(item, min(item.limit_s, remaining_s))
            if self.pseudonyms is not None:
                self.pseudonyms.learn_from(item, entry.text)
            size += len(entry.text)
            entries.append(entry)
        finish_until = time.monotonic() + _FINISH_S
        return [self._finished(entry, finish_until) for entry in entries]

    def _entry(self, item: Item, limit_s: float) -> Entry:
        began = time.monotonic()
        try:
            raw, hidden, texts = self._read(item, limit_s)
            # Each file alone: what a user writes into one of them hides nothing in the others.
            shown = [self.redactor.redact(text) for text in texts]
            note, _found = self.redactor.redact(raw.note)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            return Entry(item, seconds=time.monotonic() - began, note=f"not read: {type(error).__name__}")
        hidden += sum(found for _text, found in shown)
        text = "\n".join(text for text, _found in shown)
        return Entry(item, text, raw.exit, time.monotonic() - began, raw.cut, hidden, " ".join(note.split()))

    def _read(self, item: Item, limit_s: float) -> tuple[Raw, int, list[str]]:
        """Return what could be read, how many settings were hidden, and the text of each file."""
        source = item.source
        if isinstance(source, Command):
            raw = self._run(source.words, limit_s, item.most_bytes)
            text, hidden = self._filtered(item.filter, raw.text)
            return raw, hidden, [text]
        if isinstance(source, Files):
            paths, newest = source.paths, source.newest
            found = in_child(lambda: reading.read_files(self.root, paths, newest, item.most_bytes), limit_s)
            shown = [(path, *self._filtered(item.filter, text)) for path, text in found.get("files", ())]
            return (
                _raw_of(found),
                sum(one[2] for one in shown),
                [_below_name(path, one) for path, one, _hidden in shown],
            )
        if isinstance(source, Facts):
            read = source.read
            found = in_child(lambda: {"facts": read(self.root)}, limit_s)
            return _raw_of(found), 0, [json.dumps(found["facts"], indent=1) + "\n"] if "facts" in found else []
        return self._tool(source, limit_s, item.most_bytes)

    def _run(self, words: Sequence[str], limit_s: float, most_bytes: int) -> Raw:
        if not self.root.is_this_machine and self.read_command is reading.read_command:
            return Raw("", note="this is not the running machine")
        return self.read_command(words, limit_s, most_bytes)

    def _filtered(self, kind: str, text: str) -> tuple[str, int]:
        """Return a text with known settings only, and learn the values of secret ones."""
        if kind == TEXT or not text.strip():
            return text, 0
        if kind in (JSON, RESULTS):
            shown, hidden, secrets = settings.show_json(text, results=kind == RESULTS)
        else:
            shown, hidden, secrets = {SLURM: settings.show_slurm, VARIABLES: settings.show_variables}[kind](text)
        self.redactor.learn(secrets)
        return shown, hidden

    def _tool(self, tool: Tool, limit_s: float, most_bytes: int) -> tuple[Raw, int, list[str]]:
        """Run a tool in a new folder, and return the texts of what it has written; the folder is removed."""
        parent = tempfile.gettempdir()
        free = shutil.disk_usage(parent).free
        if free < tool.room_bytes:
            needs = f"not run: {parent} has {free >> 20} MiB free, and it needs {tool.room_bytes >> 20} MiB"
            return Raw("", note=needs), 0, []
        if shutil.which(tool.words[0], path=reading.ENVIRONMENT["PATH"]) is None:
            return Raw("", 127, note="not installed"), 0, []
        with tempfile.TemporaryDirectory(prefix="hpcai-diag-") as folder:
            raw = self._run([word.format(folder=folder) for word in tool.words], limit_s, 1 << 20)
            found = in_child(lambda: _texts_in(folder, most_bytes), 60.0)
        cut = raw.cut or ("size" if found.get("cut") else "")
        texts = [_below_name(name, text) for name, text in found.get("files", ())]
        return Raw("", raw.exit, cut, raw.note or str(found.get("note", ""))), 0, texts

    def _finished(self, entry: Entry, until: float) -> Entry:
        """Return the entry without what is only known at the end: values of secret settings, and names to replace.

        :param until: later, the entry loses its text, which may contain them.
        """
        if time.monotonic() > until:
            note = "left out: hiding names and settings in the texts before it took too long"
            return replace(entry, text="", cut="time", note=note)
        text, found = self.redactor.hide_learned(entry.text)
        note, _found = self.redactor.hide_learned(entry.note)
        if self.pseudonyms is not None:
            text, note = self.pseudonyms.replace(text), self.pseudonyms.replace(note)
        return replace(entry, text=text, note=note, redacted=entry.redacted + found)


def _below_name(name: str, text: str) -> str:
    return f"# {name}\n{text.rstrip()}\n"


def _raw_of(found: Mapping[str, Any]) -> Raw:
    cut = ("time" if found.get("overdue") else "size") if found.get("cut") else ""
    return Raw("", None, cut, str(found.get("note", "")))


def _texts_in(folder: str, most_bytes: int) -> dict[str, Any]:
    """Return the names and texts of a tool's archives and logs; only what may be opened, and no binaries."""
    made: list[list[str]] = []
    size, cut = 0, False
    for name, data in _members(folder):
        if size >= most_bytes:
            cut = True
            break
        if b"\0" in data[:4096] or not may_be_opened(name):
            continue
        piece = data[: most_bytes - size]
        cut = cut or len(piece) < len(data)
        size += len(piece)
        made.append([name, piece.decode("utf-8", "replace")])
    return {"files": made, "cut": cut, "note": "" if made else "it has written nothing"}


def _members(folder: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if not reading.regular_size(path):
            continue
        if ".tar" in entry and not entry.endswith((".sha256", ".md5")):
            with tarfile.open(path) as archive:
                for member in archive:
                    # The first part of a name is the archive's own folder.
                    inside = f"/{member.name.partition('/')[2]}"
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is not None:
                        yield inside, file.read(1 << 20)
        elif entry.endswith(".gz"):
            with open(path, "rb") as file:
                yield f"/{entry}", zlib.decompressobj(31).decompress(file.read(64 << 20), 64 << 20)
