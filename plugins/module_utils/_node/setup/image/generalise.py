# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Take out of a machine what is its own, before others are made from it: first a list, then the deed."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...machine.atomic import write_file
from ...machine.root import Root
from . import accounts
from .mounted import Places
from .own import HOME, ITEMS, PASSWORDS, Item

REMOVE, EMPTY, FORGET = "remove", "empty", "forget"
_NODE = "/etc/hpcai/node.json"
_ITS_SIZE = "vm_size"
"""Of the bake's machine; the sizes described by hand beside it belong to all."""
# messages.1, syslog.2.gz, dmesg.0, cloud-init.log-20260101, secure-20260101.gz
_ROTATED = re.compile(r"\.\d+$|[.-]\d{8}$|\.(?:gz|xz|bz2|zst|old)$|\.journal~?$")


@dataclass(frozen=True)
class Action:
    """What is done to one path.

    :ivar item: the kind of thing it is.
    :ivar kind: REMOVE, EMPTY, or FORGET for settings that lose one key.
    :ivar path: on the machine, that is below the root.
    """

    item: str
    kind: str
    path: str


@dataclass(frozen=True)
class Plan:
    """What has to go.

    :ivar actions: in their order; a folder stands for all that is in it.
    :ivar locked: accounts whose password goes.
    :ivar left_alone: (path, reason) of what was found and is somebody else's.
    """

    actions: tuple[Action, ...]
    locked: tuple[str, ...]
    left_alone: tuple[tuple[str, str], ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.actions or self.locked)


def plan(
    root: Root, places: Places, keep: Collection[str] = (), extra: Sequence[str] = (), spared: Collection[str] = ()
) -> Plan:
    """Return what has to go. Changes nothing.

    :param keep: names of items that stay.
    :param extra: further patterns of what is removed.
    :param spared: real paths that this very process needs; nothing below them is touched.
    """
    walk = _Walk(root, places, spared)
    people = accounts.people(root)
    for item in (Item("extra", "what was asked for besides", remove=tuple(extra)), *ITEMS):
        if item.name not in keep:
            walk.visit(item, [account.home for account in people])
    if "cluster" not in keep and _ITS_SIZE in _settings(root):
        walk.actions[_NODE] = Action("cluster", FORGET, _NODE)
    locked = () if PASSWORDS in keep else tuple(account.name for account in people if account.has_password)
    return Plan(tuple(walk.actions.values()), locked, tuple(sorted(walk.left_alone.items())))


class _Walk:
    def __init__(self, root: Root, places: Places, spared: Collection[str]) -> None:
        self.root, self.places = root, places
        self.spared = {os.path.realpath(path) for path in spared}
        self.actions: dict[str, Action] = {}
        self.left_alone: dict[str, str] = {}

    def visit(self, item: Item, homes: Sequence[str]) -> None:
        for place in self._matching(item.remove, homes):
            self._remove(item, place)
        for place in self._matching(item.empty, homes):
            self._empty(item, place)
        for folder in self._folders(item.clear, homes):
            for entry in sorted(os.listdir(folder)):
                if not any(fnmatch.fnmatch(entry, name) for name in item.spare):
                    self._remove(item, os.path.join(folder, entry))
        for folder in self._folders(item.files, homes):
            for place in self._files_below(folder):
                self._remove(item, place)
        for folder in self._folders(item.logs, homes):
            for place in self._files_below(folder):
                if _ROTATED.search(place):
                    self._remove(item, place)
                else:
                    self._empty(item, place)

    def _matching(self, patterns: Sequence[str], homes: Sequence[str]) -> Iterator[str]:
        top = glob.escape(self.root.path.rstrip("/"))
        for pattern in patterns:
            stems = homes if pattern.startswith(HOME) else ("",)
            for stem in stems:
                found = glob.glob(f"{top}{glob.escape(stem)}{pattern[len(HOME) :] if stem else pattern}")
                yield from sorted(place for place in found if os.path.lexists(place))

    def _folders(self, patterns: Sequence[str], homes: Sequence[str]) -> Iterator[str]:
        for place in self._matching(patterns, homes):
            # A link too, within the image: each entry is looked at where it really lies.
            if os.path.isdir(place) and self._own(place):
                yield place

    def _files_below(self, folder: str) -> Iterator[str]:
        for here, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if self._own(os.path.join(here, name)))
            yield from (os.path.join(here, name) for name in sorted(files))

    def _own(self, place: str) -> bool:
        reason = self.places.foreign(place)
        if reason:
            self._leave(place, reason)
        return not reason

    def _leave(self, place: str, reason: str) -> None:
        # What is in memory only is in no image: not worth a word.
        if not reason.startswith("tmpfs"):
            self.left_alone[self._shown(place)] = reason

    def _remove(self, item: Item, place: str) -> None:
        if not self._own(place):
            return
        real = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
        if any(path == real or path.startswith(f"{real}/") for path in self.spared):
            # This process lives in there: all beside it goes.
            if real not in self.spared:
                for entry in sorted(os.listdir(place)):
                    self._remove(item, os.path.join(place, entry))
        elif self.places.has_mounts_below(real):
            self._leave(place, "something is mounted in it")
        else:
            self._add(item, REMOVE, place)

    def _empty(self, item: Item, place: str) -> None:
        about = os.lstat(place)
        # A link is the distribution's (/etc/resolv.conf of systemd-resolved), a socket or pipe holds nothing.
        if stat.S_ISREG(about.st_mode) and about.st_size and self._own(place):
            self._add(item, EMPTY, place)

    def _add(self, item: Item, kind: str, place: str) -> None:
        shown = self._shown(place)
        above = shown
        while above != "/":
            above = os.path.dirname(above)
            if above in self.actions:
                return
        self.actions.setdefault(shown, Action(item.name, kind, shown))

    def _shown(self, place: str) -> str:
        top = self.root.path.rstrip("/")
        return place[len(top) :] if top and place.startswith(f"{top}/") else place


def apply(root: Root, wanted: Plan) -> None:
    """Do it. What is gone already is no error.

    :raises OSError: something could not be removed; the message names it.
    """
    for action in wanted.actions:
        place = root.at(action.path)
        with contextlib.suppress(FileNotFoundError):
            if action.kind == EMPTY:
                os.truncate(place, 0)
            elif action.kind == FORGET:
                kept = {key: value for key, value in _settings(root).items() if key != _ITS_SIZE}
                write_file(place, json.dumps(kept, indent=2, sort_keys=True) + "\n")
            elif os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place)
            else:
                os.unlink(place)
    if wanted.locked:
        accounts.lock(root, wanted.locked)


def _settings(root: Root) -> dict[str, Any]:
    try:
        found = json.loads(root.text(_NODE) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def as_diff(wanted: Plan) -> dict[str, str]:
    """Return the change in the form of Ansible's diff: paths that go, or hold something, before and after."""
    remains = {EMPTY: "empty", FORGET: f"without {_ITS_SIZE}"}
    kept = [f"{action.path} ({remains[action.kind]})" for action in wanted.actions if action.kind in remains]
    return {
        "before": "".join(f"{action.path}\n" for action in wanted.actions)
        + "".join(f"password of {name}\n" for name in wanted.locked),
        "after": "".join(f"{line}\n" for line in kept),
    }
