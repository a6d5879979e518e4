# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The results of earlier runs, one file per node, and their comparison over time."""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..health import record
from ..health.check import WARN, Finding, Reading
from ..machine.atomic import make_operators_folder, write_file
from ..machine.root import Root
from .run import JudgedRun

SCHEMA = 1
ROOTS_FOLDER = "/var/lib/hpcai/bench"
MOST = 500
"""Lines that are kept per node, the newest ones."""
COMPARED, LEAST = 10, 3
"""How many earlier values are compared with at most, and at least."""
DROP = 0.1
"""A value that is worse than the median of earlier values by more than this share gets a warning. Runs of the same
benchmark on the same machine differ by a few percent."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,250}")


def folder_for(given: str | None) -> str:
    """Return the folder of the results: the given one, root's, or one in the user's home (XDG Base Directory)."""
    if given:
        return os.path.abspath(given)
    if os.geteuid() == 0:
        return ROOTS_FOLDER
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{state}/hpcai/bench"


@dataclass(frozen=True)
class StoredResult:
    """A result that was kept.

    :ivar nodes: how many nodes took part.
    """

    time: str
    benchmark: str
    verdict: str
    nodes: int
    readings: tuple[Reading, ...]


def read(root: Root, folder: str, node: str) -> list[StoredResult]:
    """Return the results of a node, the oldest first; lines that cannot be read are left out."""
    return [one for line in (root.text(_path(folder, node)) or "").splitlines() if (one := _stored_result(line))]


def _stored_result(line: str) -> StoredResult | None:
    try:
        held = json.loads(line)
        if held["schema"] != SCHEMA:
            return None
        readings = tuple(Reading(**reading) for reading in held["readings"])
        return StoredResult(held["time"], held["benchmark"], held["verdict"], int(held["nodes"]), readings)
    except (ValueError, LookupError, TypeError):
        return None


def keep(root: Root, folder: str, done: Iterable[JudgedRun]) -> None:
    """Add results to the files of their nodes.

    :raises OSError: a file cannot be written.
    """
    lines: dict[str, list[str]] = {}
    for one in done:
        for node in one.nodes:
            lines.setdefault(node, []).append(_line(one))
    if folder == ROOTS_FOLDER:
        make_operators_folder(root, folder)
    else:
        os.makedirs(root.at(folder), mode=0o755, exist_ok=True)
    for node, added in lines.items():
        path = _path(folder, node)
        held = (root.text(path) or "").splitlines()
        write_file(root.at(path), "\n".join([*held, *added][-MOST:]) + "\n")


def _path(folder: str, node: str) -> str:
    if not _NAME.fullmatch(node):
        raise ValueError(f"{node!r} is not the name of a node")
    return f"{folder}/{node}.jsonl"


def _line(done: JudgedRun) -> str:
    result = done.result
    held: dict[str, Any] = {
        "schema": SCHEMA,
        "time": time.strftime(record.TIME, time.gmtime(done.began)),
        "benchmark": result.name,
        "verdict": result.verdict,
        "summary": result.summary,
        "limit": result.answer.limit,
        "nodes": len(done.nodes),
        "readings": [vars(reading) for reading in result.answer.readings],
    }
    return json.dumps(held)


def trend(done: JudgedRun, earlier: Sequence[StoredResult]) -> Finding | None:
    """Return a warning if a value is worse than the median of earlier values of the same kind.

    :param earlier: results of the run's first node.
    """
    same = [one for one in earlier if one.benchmark == done.result.name and one.nodes == len(done.nodes)]
    worst: tuple[float, str, str] | None = None
    for reading in done.result.answer.readings:
        before = [value for one in same if (value := _value_of(one, reading)) is not None][-COMPARED:]
        if len(before) < LEAST or isinstance(reading.value, str):
            continue
        median = statistics.median(before)
        if not median > 0:
            continue
        change = (reading.value - median) / median * (1 if reading.at_most else -1)
        if change > DROP and (worst is None or change > worst[0]):
            of = f" of {reading.device}" if reading.device else ""
            words = (
                f"{reading.name}{of} is {reading.value:.4g} {reading.unit}, {change:.0%} worse than the median of the "
                f"last {len(before)} runs ({median:.4g})"
            )
            worst = change, words, reading.device
    if worst is None:
        return None
    return Finding(WARN, worst[1], worst[2], "Compare the nodes, and look for changes since: driver, image, clocks")


def _value_of(kept: StoredResult, reading: Reading) -> float | None:
    for one in kept.readings:
        if (one.name, one.device, one.unit) == (reading.name, reading.device, reading.unit):
            return None if isinstance(one.value, str) else float(one.value)
    return None
