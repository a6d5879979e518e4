# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What a node of an elastic set does when Azure announces that it evicts the machine: it takes no further job."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..machine.cluster_settings import cluster_of
from ..machine.config import ConfigError
from ..machine.imds import PREEMPT, ScheduledEvent
from ..machine.root import Root
from ..machine.run import CommandFailed, Run
from ..slurm import node_queries, slurmd_env
from .views import EVICTED


class Evictions:
    """Drains this node once for each announced eviction, so that the controller's daemon requeues its jobs in time.

    The jobs go on until shortly before the eviction: 'hpcnode checkpoint watch' gets the same event, and has the rest
    of the 30 s for a checkpoint.

    :ivar drained: ids of the events for which this node was drained.
    """

    def __init__(self, root: Root, run: Run) -> None:
        self._root, self._run = root, run
        self._reported: set[str] = set()
        self.drained: set[str] = set()

    def notice(self, events: Iterable[ScheduledEvent], now: float) -> str:
        """Drain the node if one of the events evicts this machine, and return a line for the log; usually empty."""
        for event in events:
            if event.kind == PREEMPT and event.id not in self._reported:
                return self._drain(event, now)
        return ""

    def _drain(self, event: ScheduledEvent, now: float) -> str:
        try:
            settings, env = cluster_of(self._root), slurmd_env.read(self._root)
            if settings is None or not settings.elastic or env is None:
                self._reported.add(event.id)
                return ""
            reason = evicted_reason(event.not_before or now)
            words = ["State=DRAIN", f"Reason={reason}"]
            node_queries.update_node(env.node_name, words, env.controllers, self._run)
        except (ConfigError, CommandFailed, OSError) as error:
            # The next look, two seconds later, tries again.
            return f"event {event.id}: this node could not be drained: {error}"
        self._reported.add(event.id)
        self.drained.add(event.id)
        return f"event {event.id}: drained node {env.node_name}: {reason}"


def evicted_reason(when: float) -> str:
    """Return the drain reason of a node whose machine Azure evicts at this time, in seconds since the epoch."""
    return f"{EVICTED} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(when))}"
