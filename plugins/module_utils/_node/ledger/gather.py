# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Gathers the sources of the ledger on the controller, with its settings in /etc/hpcai/goodput.json."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..forms import absolute_path, instance_of, list_of, matching, number, or_empty, record, string
from ..job.checkpoint.store import StoreOptions, open_store
from ..machine.config import FOLDER, ConfigError, read_checked
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..sku import UnknownVmSize, find_size
from ..sku.prices import PriceList, read_prices
from ..slurm.nodes import NO_INSTANCE, epoch, parse_records, show_nodes
from . import checkpoints
from .accounting import Query, query, read_history, read_runs
from .checkpoints import Checkpoint
from .compute import Ledger, Sources, compute
from .decisions import read_decisions
from .machines import read_machines
from .output import Rates

CONFIG = "goodput"
FILE = f"{FOLDER}/{CONFIG}.json"
_MOST_DECISIONS = 100
_SPOT = "spot"
"""The feature that the nodes of elastic spot sets have; an operator can give it to other nodes."""
NAME = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "a name of letters, digits and ._-")


@dataclass(frozen=True)
class Series:
    """A series of checkpoints.

    :ivar url: of its container or folder.
    :ivar training: the training whose runs they count for.
    :ivar users: the users for whose jobs they count; without both they count for all jobs.
    """

    url: str
    training: str = ""
    users: Sequence[str] = ()


@dataclass(frozen=True)
class Settings:
    """The content of the file; all of it is optional.

    :ivar days: length of the window in days.
    :ivar stores: series of checkpoints to look at.
    :ivar prices: path of the price file; empty for none.
    :ivar region: of the cluster, for the prices.
    :ivar metrics: folder for the Prometheus text file; empty for none.
    """

    days: float = 7.0
    stores: Sequence[Series] = field(default_factory=tuple)
    prices: str = ""
    region: str = ""
    metrics: str = ""


_SERIES = record({"url": string, "training": or_empty(NAME), "users": list_of(string)}, ("url",))
FORM = instance_of(
    Settings,
    {
        "days": number(0, 400, above=True),
        "stores": list_of(lambda path, value: Series(**_SERIES(path, value))),
        "prices": or_empty(absolute_path),
        "region": string,
        "metrics": or_empty(absolute_path),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings:
    """Return the settings; the defaults if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, FORM) or Settings()


@dataclass(frozen=True)
class LedgerScope:
    """What to compute.

    :ivar since: start of the window in seconds since the epoch.
    :ivar training: list only this training's work; empty for all.
    :ivar jobs: jobs without a comment that belong to it.
    """

    since: float
    until: float
    training: str = ""
    jobs: Sequence[int] = ()


def gather(root: Root, run: Run, settings: Settings, asked: LedgerScope, ask: Query = query) -> tuple[Ledger, Rates]:
    """Read all sources, and return the ledger and the prices.

    Without slurmctld, nodes are known from jobs and events only. Without a store, what its trainings have kept is
    unknown unless the ledger's record has it. Both are noted.

    :raises CommandFailed: slurmdbd does not answer.
    :raises ConfigError: the settings, the price file or the record are invalid.
    """
    notes: list[str] = []
    nodes = _nodes(run, notes)
    history = read_history(asked.since, asked.until, ask)
    notes += [f"{count} events of nodes were skipped: {why}." for why, count in history.skipped.counts.items()]
    found = _checkpoints(root, settings, notes, asked.until)
    sources = Sources(
        nodes.names,
        history.events,
        partial(read_runs, ask=ask),
        checkpoints.index_of(found),
        read_machines(root),
        asked.training,
        dict.fromkeys(asked.jobs, asked.training),
        nodes.gone,
        history.registrations,
    )
    ledger = compute(sources, asked.since, asked.until)
    ledger.decisions = read_decisions(root, asked.since, asked.until)[-_MOST_DECISIONS:]
    # The same note may come from several days.
    ledger.notes = list(dict.fromkeys([*notes, *ledger.notes]))
    return ledger, Rates(_prices(root, settings), settings.region, nodes.sizes, nodes.spot)


@dataclass(frozen=True)
class _Nodes:
    """What slurmctld knows now.

    :ivar sizes: VM sizes by node, where a feature names one.
    :ivar gone: since when a node has no machine, for spare nodes.
    :ivar spot: nodes with the feature of spot machines.
    """

    names: Sequence[str] = ()
    sizes: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
    spot: frozenset[str] = frozenset()


def _nodes(run: Run, notes: list[str]) -> _Nodes:
    try:
        shown = show_nodes(run)
    except CommandFailed as error:
        notes.append(f"slurmctld does not answer, so idle nodes without jobs and events are missing: {error}.")
        return _Nodes()
    sizes: dict[str, str] = {}
    gone: dict[str, float] = {}
    spot: set[str] = set()
    records = parse_records(shown)
    for name, entry in records.items():
        features = entry.field("AvailableFeatures").split(",") if entry else []
        if _SPOT in features:
            spot.add(name)
        for feature in features:
            try:
                sizes[name] = find_size(f"Standard_{feature}").name
                break
            except UnknownVmSize:
                continue
        # Registering removes the reason.
        if entry and entry.reason.startswith(NO_INSTANCE) and "DOWN" in entry.field("State").upper():
            gone[name] = epoch(entry.reason_given) or 0.0
    return _Nodes(tuple(records), sizes, gone, frozenset(spot))


def _checkpoints(root: Root, settings: Settings, notes: list[str], now: float) -> list[Checkpoint]:
    known = checkpoints.read_record(root)
    new: list[Checkpoint] = []
    for series in settings.stores:
        try:
            store, folder = open_store(root, series.url, StoreOptions(), nodes=1)
            try:
                new += checkpoints.in_store(store, series.training, tuple(series.users))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except (CommandFailed, ConfigError, ValueError, RuntimeError, OSError) as error:
            # An OSError is, for example, a full disk below the temporary folder.
            notes.append(f"{series.url} cannot be read, so newer checkpoints are unknown: {error}.")
    joined = checkpoints.merged(known, new, now)
    if new:
        try:
            checkpoints.write_record(root, joined)
        except OSError as error:
            notes.append(f"the times of checkpoints were not recorded ({error.strerror}): run this as root.")
    return joined


def _prices(root: Root, settings: Settings) -> PriceList | None:
    if not settings.prices:
        return None
    text = root.text(settings.prices)
    if text is None:
        raise ConfigError(f"{root.at(settings.prices)} cannot be read: correct 'prices' in {FILE}.")
    return read_prices(text, settings.prices)
