# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The daemon's book: leases, orders and failures. It is kept in a file, which is written before each action."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeVar

from ..machine.atomic import write_file
from ..machine.root import Root

SCHEMA = 1
_T = TypeVar("_T")

LEASED, JOINED, LEAVING, DELETING = "leased", "joined", "leaving", "deleting"


@dataclass
class Lease:
    """A slot's machine.

    :ivar vm_id: the machine's identity.
    :ivar state: LEASED until its slurmd registers, JOINED, LEAVING when nothing may use it any more, DELETING when
        Azure was asked to delete it.
    :ivar since: when it got this state, in seconds since the epoch.
    :ivar granted: when the lease was granted.
    :ivar missing: in how many complete listings in a row Azure did not show it.
    :ivar asked: when Azure was last asked to delete it.
    :ivar why: why it leaves.
    :ivar retire: why an administrator wants the machine to go; empty if nobody does.
    :ivar drained: whether its node was drained for that.
    """

    slot: str
    vm_id: str
    instance: str
    address: str
    host_name: str
    state: str
    since: float
    granted: float
    missing: int = 0
    asked: float = 0.0
    why: str = ""
    retire: str = ""
    drained: bool = False


@dataclass
class Order:
    """A growth that was asked for.

    :ivar slots: the slots that wait for it.
    :ivar capacity: the capacity that it set.
    :ivar sent: whether Azure accepted it.
    :ivar operation: URL of the operation; empty if it is not known.
    :ivar done: when Azure reported its end; 0 before.
    """

    id: str
    set: str
    slots: list[str]
    capacity: int
    since: float
    sent: bool = False
    operation: str = ""
    done: float = 0.0


@dataclass
class Failure:
    """A slot that Slurm must not use.

    :ivar until: when it is offered again, in seconds since the epoch.
    """

    slot: str
    code: str
    words: str
    since: float
    until: float


@dataclass
class Closed:
    """A set that orders nothing.

    :ivar until: when it opens again, in seconds since the epoch; 0 if a person has to open it.
    """

    code: str
    words: str
    since: float
    until: float


@dataclass
class SetBook:
    """What the daemon knows of a set.

    :ivar level: how many orders failed in a row.
    :ivar refused: since when Azure refuses orders because a right is missing, without one that it fulfilled; 0 if it
        does not.
    :ivar boots: how many instances in a row never joined, or were drained when they joined.
    :ivar boot_failed: when that last happened; 0 if never.
    :ivar boot_words: why.
    :ivar changes: when Azure was asked for changes in the last minute.
    :ivar strangers: instances without a lease, by vmId, and since when.
    :ivar doomed: instances without a lease that Azure was asked to delete, by vmId, and when.
    :ivar missing_capacity: how many instances of the capacity Azure does not list.
    :ivar missing_since: since when it is that number.
    :ivar paused: whether a person has paused the set.
    """

    closed: Closed | None = None
    level: int = 0
    refused: float = 0.0
    boots: int = 0
    boot_failed: float = 0.0
    boot_words: str = ""
    changes: list[float] = field(default_factory=list)
    strangers: dict[str, float] = field(default_factory=dict)
    doomed: dict[str, float] = field(default_factory=dict)
    missing_capacity: int = 0
    missing_since: float = 0.0
    paused: bool = False


@dataclass
class Book:
    """Everything.

    :ivar leases: by slot.
    :ivar failures: by slot.
    :ivar wanted: slots that Slurm waits for, and since when.
    :ivar stray: slots that Slurm believes to run without a lease, and since when.
    :ivar keep: nodes that stay when they are idle, and until when.
    :ivar evicted: nodes whose jobs were notified that Azure evicts the machine.
    :ivar orders: open orders, the oldest first.
    :ivar next_order: number of the next order.
    """

    leases: dict[str, Lease] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    wanted: dict[str, float] = field(default_factory=dict)
    stray: dict[str, float] = field(default_factory=dict)
    keep: dict[str, float] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    sets: dict[str, SetBook] = field(default_factory=dict)
    next_order: int = 1

    def of(self, name: str) -> SetBook:
        """Return the record of a set."""
        return self.sets.setdefault(name, SetBook())


class UnreadableBook(ValueError):
    """The file is damaged; the message says how."""


def as_text(book: Book) -> str:
    """Return the file's text."""
    return json.dumps({"schema": SCHEMA, **asdict(book)}, indent=1, sort_keys=True) + "\n"


def parse(text: str) -> Book:
    """Return the book in the file's text.

    :raises UnreadableBook: it is damaged, or has another schema.
    """
    try:
        held = json.loads(text)
        if held["schema"] != SCHEMA:
            raise UnreadableBook(f"it has schema {held['schema']}, but this hpcnode reads schema {SCHEMA}")
        return Book(
            leases={slot: _made(Lease, one) for slot, one in held["leases"].items()},
            failures={slot: _made(Failure, one) for slot, one in held["failures"].items()},
            wanted=_times(held["wanted"]),
            stray=_times(held["stray"]),
            keep=_times(held["keep"]),
            # An older hpcnode wrote none.
            evicted=[str(one) for one in held.get("evicted", [])],
            orders=[_made(Order, one) for one in held["orders"]],
            sets={name: _set_book(one) for name, one in held["sets"].items()},
            next_order=int(held["next_order"]),
        )
    except (LookupError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
        raise UnreadableBook(f"it is damaged: {error!r}"[:200]) from None


_KINDS: Mapping[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool, "list[str]": list}


def _made(kind: type[_T], held: Mapping[str, Any]) -> _T:
    """Return a record, if each value has the type of its field."""
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    for name, one in known.items():
        is_bool = isinstance(held.get(name), bool)
        expected = _KINDS.get(str(one.type))
        if name not in held and one.default is MISSING:
            raise KeyError(f"{kind.__name__}.{name}")
        if expected and name in held and (not isinstance(held[name], expected) or is_bool != (expected is bool)):
            raise TypeError(f"{kind.__name__}.{name} is {held[name]!r}")
    return kind(**held)


def _set_book(held: Mapping[str, Any]) -> SetBook:
    made = _made(SetBook, held)
    made.closed = _made(Closed, held["closed"]) if held["closed"] else None
    made.strangers, made.doomed = _times(held["strangers"]), _times(held["doomed"])
    return made


def _times(held: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(when) for name, when in held.items()}


def read(root: Root, path: str) -> tuple[Book, str]:
    """Return the book, and why an older one is lost, or an empty text.

    A lost book is no disaster: Slurm shows each lease too, from which the next pass restores it. A damaged file is
    kept next to the new one.
    """
    text = root.text(path)
    if text is None:
        return Book(), ""
    try:
        return parse(text), ""
    except UnreadableBook as error:
        aside = f"{path}.unreadable"
        os.replace(root.at(path), root.at(aside))
        words = "Leases are restored from Slurm, but a pause and the nodes to keep are lost"
        return Book(), f"{path} cannot be read ({error}); it was moved to {aside}. {words}"


def write(root: Root, path: str, book: Book) -> None:
    """Write the book, durably, if it changed.

    :raises OSError: it cannot be written; then nothing may be done.
    """
    text = as_text(book)
    if (root.text(path) or "") != text.strip():
        write_file(root.at(path), text, mode=0o600)
