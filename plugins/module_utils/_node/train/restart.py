# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The end of a run: from which step the next one can continue, and Slurm's commands for the decision."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence

from ..job.checkpoint.directory import Signal, find_finished
from ..job.recovery import HOLD, REQUEUE, Decision
from ..machine.run import Run, wait_until
from .record import first_failed

ERRORS, NEAR_LIMIT, NOTICE = "errors", "near-limit", "notice-"
"""Files in the job folder: srun's messages; the job got the signal that its time limit is near; a node got a notice."""
_MOST_ERRORS = 2**20
_TEE_S = 2.0


def kept_step(folder: str, signal: Signal, in_store: bool, run: Run) -> int | None:
    """Return the step of the newest complete checkpoint, 0 if there is none; None if that is unknown.

    :param folder: the folder of the checkpoints, which counts if they are not published.
    :param in_store: whether they are published, so that only complete ones in the store count.
    """
    if not in_store:
        try:
            finished = find_finished(folder, signal)
        except OSError:
            return None
        return finished[-1].step if finished else 0
    answer = run(["hpcnode", "checkpoint", "list", "--json"])
    try:
        listed = json.loads(answer.stdout)["whole"] if answer.rc == 0 else None
        if listed is None:
            return None
        return int(listed[0]["step"]) if listed else 0
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def read_errors(folder: str, failed: bool) -> str:
    """Return srun's messages of the run; empty if there are none.

    :param failed: whether the training failed. Then the script's tee may still be writing, so this waits a moment.
    """
    path = f"{folder}/{ERRORS}"
    if failed:
        wait_until(lambda: bool(first_failed(_tail(path))), _TEE_S, 0.2)
    return _tail(path)


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - _MOST_ERRORS, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def noticed_nodes(folder: str) -> tuple[str, ...]:
    """Return the nodes about which the platform gave notice to the training."""
    return tuple(
        sorted(os.path.basename(path)[len(NOTICE) :] for path in glob.glob(f"{glob.escape(folder)}/{NOTICE}*"))
    )


def commands(decision: Decision, job: str) -> list[Sequence[str]]:
    """Return Slurm's commands for a decision, which the job's user may run.

    Slurm changes the excluded nodes and the start time of a pending job only. So the job is held first, and released
    when it is changed: a command that is killed in between leaves it held.

    :param job: the job's id, with the task number for an array.
    """
    if decision.action == HOLD:
        return [["scontrol", "requeuehold", job]]
    if decision.action != REQUEUE:
        return []
    changes = [f"ExcNodeList={','.join(decision.leave_out)}"] if decision.leave_out else []
    changes += [f"StartTime=now+{decision.wait_s}"] if decision.wait_s else []
    if not changes:
        return [["scontrol", "requeue", job]]
    return [
        ["scontrol", "requeuehold", job],
        ["scontrol", "update", f"JobId={job}", *changes],
        ["scontrol", "release", job],
    ]
