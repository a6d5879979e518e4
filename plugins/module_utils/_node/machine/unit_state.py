# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The state of systemd units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .run import Run

_PROPERTIES = ("LoadState", "ActiveState", "SubState", "Result")


@dataclass(frozen=True)
class UnitState:
    """The state of a unit, as systemd reports it.

    :ivar load: ``loaded``, ``not-found``, ``masked``; ``unknown`` if systemd does not answer.
    :ivar active: ``active``, ``activating``, ``inactive``, ``failed`` and so on.
    :ivar sub: the sub-state, e.g. ``running``, ``auto-restart``.
    :ivar result: why it ended, e.g. ``exit-code``.
    """

    load: str
    active: str
    sub: str
    result: str

    @property
    def is_active(self) -> bool:
        """Whether it runs, or is a one-shot unit that succeeded."""
        return self.active in ("active", "reloading")

    @property
    def words(self) -> str:
        """Its state in messages: ``failed (exit-code)``."""
        if self.load != "loaded":
            return {"not-found": "not installed"}.get(self.load, self.load)
        return f"{self.active} ({self.result})" if self.result not in ("", "success") else self.active


def read_unit(name: str, run: Run) -> UnitState:
    """Return the state of a unit; ``unknown`` on a machine without systemd."""
    return read_units([name], run)[name]


def read_units(names: Sequence[str], run: Run) -> dict[str, UnitState]:
    """Return the states of several units with one command; ``unknown`` for those that systemd does not report."""
    answer = run(["systemctl", "show", *names, "--property=" + ",".join(_PROPERTIES)])
    # The answer is in the order of the names, separated by empty lines.
    blocks = answer.stdout.strip().split("\n\n") if answer.rc == 0 else []
    blocks = blocks if len(blocks) == len(names) else [""] * len(names)
    return {name: _state(block) for name, block in zip(names, blocks)}


def _state(block: str) -> UnitState:
    shown = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    if "LoadState" not in shown:
        return UnitState("unknown", "unknown", "", "")
    return UnitState(
        shown["LoadState"], shown.get("ActiveState", ""), shown.get("SubState", ""), shown.get("Result", "")
    )
