# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the arbiter does about a node, and what it tells people."""

from __future__ import annotations

from dataclasses import dataclass

from .message import Fault
from .records import Machine

DRAIN, REWRITE, RETURN, RESTART = "drain", "rewrite", "return", "restart"
"""Take it out; give a node that is out by us another reason; bring it back; restart it when its jobs have ended."""

CAP, HELD, STUCK = BAD = ("cap", "held", "stuck")
"""No more nodes may be out; a node does not return by itself any more; a restart does not end."""
STALE, SILENT, UNREADABLE, LOST = UNTOLD = ("stale", "silent", "unreadable", "lost")
"""Nothing was done because nothing is known: a report is too old, there is none, or it cannot be read; and what was
known of machines is lost."""

_SEVERITY = ("nothing", "observe", "reset_gpu", "reboot", "replace")


@dataclass(frozen=True)
class Action:
    """Something to do at slurmctld.

    :ivar reason: the node's new reason; empty where it gets none.
    :ivar machine: what is known of the machine when it is done.
    :ivar urgency: what is greater goes first where not all can be done.
    """

    kind: str
    node: str
    reason: str
    machine: Machine
    urgency: tuple[bool, int] = (False, 0)


@dataclass(frozen=True)
class Alert:
    """Something that a person should know.

    :ivar kind: one of BAD or UNTOLD.
    :ivar node: which node it is about; empty where it is all of them.
    """

    kind: str
    node: str
    words: str


def urgency_of(fault: Fault) -> tuple[bool, int]:
    """Return how urgent it is to take the node out: what no job can do without first, then by what would help."""
    return fault.blocks, _SEVERITY.index(fault.action) if fault.action in _SEVERITY else 0
