# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""One pass over all nodes: read, decide, act, record; and repeated passes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...machine.root import Root
from ...machine.run import CommandFailed, Run
from . import observed, records, status
from .actions import LOST, ActionResult, Alert, carry_out
from .decide import decide
from .machine_log import append_changes
from .settings import Settings

LOCK = "/run/hpcai/health-arbiter.lock"
"""Held by the only arbiter that may run."""

ERROR, WARNING, INFO = "<3>", "<4>", "<6>"
"""Priority prefixes of lines for the journal (sd-daemon(3))."""

Clock = Callable[[], float]
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Reconciled:
    """The result of a pass.

    :ivar status: the result as plain values (``status.document``).
    :ivar done: the actions with their results.
    """

    status: dict[str, Any]
    done: tuple[ActionResult, ...] = ()


def reconcile(
    root: Root,
    run: Run,
    settings: Settings,
    now: float,
    check: bool = False,
    machines: dict[str, str] | None = None,
) -> Reconciled:
    """Make one pass.

    :param check: only return what would be done.
    :param machines: the last known machine of each node, kept by the caller between passes.
    :raises CommandFailed: slurmctld does not answer; then nothing was done.
    :raises OSError: the records cannot be written.
    """
    nodes = observed.read_nodes(run)
    known = records.read(root, settings.records) if not check else _known_as_it_is(root, settings)
    decision = decide(nodes.values(), known.machines, settings, now)
    if known.problem:
        decision = replace(decision, alerts=(Alert(LOST, "", known.problem), *decision.alerts))
    if check:
        done = [ActionResult(action) for action in decision.actions]
        return Reconciled(status.document(decision, done, decision.machines, settings, now), tuple(done))
    done = carry_out(decision.actions, nodes, run)
    after = dict(decision.machines)
    after.update({one.action.machine.key: one.action.machine for one in done if not one.problem})
    # First write the records, which cannot be recovered.
    records.write(root, settings.records, after, now)
    with contextlib.suppress(OSError):
        # The next pass tries again. A full disk must not keep the status from being written.
        append_changes(root, nodes.values(), {} if machines is None else machines, now)
    document = status.document(decision, done, after, settings, now)
    status.write_status(root, document)
    status.write_metrics(root, document, settings)
    return Reconciled(document, tuple(done))


def _known_as_it_is(root: Root, settings: Settings) -> records.Records:
    """Return the records, without moving an unreadable file aside."""
    try:
        return records.parse(root.text(settings.records))
    except ValueError as error:
        return records.Records({}, str(error))


def reconcile_forever(
    root: Root, run: Run, settings: Settings, clock: Clock = time.time, pause: Pause = time.sleep
) -> Iterator[str]:
    """Make passes forever, and yield lines for the journal: actions, and new alerts."""
    known: frozenset[str] = frozenset()
    machines: dict[str, str] = {}
    while True:
        try:
            looked = reconcile(root, run, settings, clock(), machines=machines)
            now_known = {f"{WARNING}{status.alert_line(alert)}" for alert in looked.status["alerts"]}
            yield from (f"{ERROR if one.problem else INFO}{one.words}" for one in looked.done)
        except (CommandFailed, OSError) as error:
            now_known = {f"{ERROR}no decision was made: {error}"}
        yield from sorted(now_known - known)
        known = frozenset(now_known)
        pause(settings.interval_s)
