# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The records that ``scontrol --oneliner show nodes`` prints, split so that free text is never read as a field.

A reason, a comment or Extra may hold anything, also `` State=IDLE`` or a line break and another node's record.
slurm_sprint_node_table (node_info.c) prints them after all fields that slurmctld makes itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"NodeName=(\S+) ")
_FREE = re.compile(r" (?:Reason|Comment|Extra|InstanceId|InstanceType|ReservationName)=")
# The reason ends at Slurm's "[user@time]". One out of slurm.conf has none; it ends at the next field, of those that
# slurm_sprint_node_table (node_info.c) may print after it.
_REASON = re.compile(
    r" Reason=(?P<text>.*?)(?: \[[^\s@\]]+@(?:\d{4}-\d\d-\d\dT[\d:]+|Unknown)\]"
    r"| +(?:Comment|Extra|InstanceId|InstanceType|ReservationName)=| *$)"
)
_GIVEN = re.compile(r" \[[^\s@\]]+@(\d{4}-\d\d-\d\dT[\d:]{8}|Unknown)\]")


@dataclass(frozen=True)
class NodeText:
    """A node's record.

    :ivar fields: the part that only slurmctld writes.
    :ivar texts: the part that begins with the first free text; empty where there is none.
    """

    fields: str
    texts: str

    def field(self, key: str) -> str:
        """Return one of slurmctld's own fields, such as NodeAddr; empty where it is not shown."""
        found = re.search(rf" {re.escape(key)}=(\S+)", self.fields)
        return found[1] if found else ""

    @property
    def reason(self) -> str:
        """The reason, without Slurm's ``[user@time]``."""
        found = _REASON.match(self.texts)
        return found["text"] if found else ""

    @property
    def reason_given(self) -> str:
        """When the reason was given, as Slurm prints it; empty where it is not said."""
        found = _GIVEN.findall(self.texts) if self.texts.startswith(" Reason=") else []
        return found[-1] if found and found[-1] != "Unknown" else ""

    @property
    def after_reason(self) -> str:
        """The comment, Extra and what follows: never a part of the reason, which messages of checks get into."""
        if not self.texts.startswith(" Reason="):
            return self.texts
        given = list(_GIVEN.finditer(self.texts))
        if given:
            return self.texts[given[-1].end() :]
        found = _FREE.search(self.texts, 1)
        return self.texts[found.start() :] if found else ""


def records(shown: str) -> Mapping[str, NodeText | None]:
    """Return the nodes' records by name; None for a name that stands there twice, as free text may forge one."""
    found: dict[str, NodeText | None] = {}
    for line in shown.splitlines():
        name = _NAME.match(line)
        if name:
            free = _FREE.search(line)
            end = free.start() if free else len(line)
            found[name[1]] = None if name[1] in found else NodeText(line[:end], line[end:])
    return found
