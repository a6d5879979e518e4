# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The report's settings, and the files in /run/hpcai/health through which prologs ask the report service."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ...forms import boolean, choice, instance_of
from ...machine.atomic import make_operators_folder, remove_file, write_file
from ...machine.config import FOLDER, read_checked
from ...machine.root import Root
from ...slurm.arbiter.observed import EXTRA, FIELDS
from ...slurm.arbiter.report import Report, UnreadableReport, decode, encode
from ..state import RUN_FOLDER
from .content import Runs

CONFIG = "health_report"
SETTINGS_FILE = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class ReportSettings:
    """The content of the file.

    :ivar field: Extra or Comment: the field of the node's record. Sites whose jobs use ``--extra`` need Comment.
    :ivar refuse_jobs: whether a prolog may prevent a job from starting.
    :ivar boot: whether the checks of the tier boot run before slurmd starts.
    """

    field: str = EXTRA
    refuse_jobs: bool = True
    boot: bool = True


_FORM = instance_of(ReportSettings, {"field": choice(*FIELDS), "refuse_jobs": boolean, "boot": boolean})


def read_settings(root: Root) -> ReportSettings:
    """Return the settings; the defaults if there is no file.

    :raises ConfigError: the file cannot be used.
    """
    return read_checked(root, CONFIG, _FORM) or ReportSettings()


def is_set_up(root: Root) -> bool:
    """Return whether the role health_checks has set up the node."""
    return root.exists(SETTINGS_FILE)


LAST_REPORT = f"{RUN_FOLDER}/told.json"
ASKED = f"{RUN_FOLDER}/asked/prolog.json"
"""A job's prolog or epilog waits for an answer. hpcai-health-report.path watches the folder."""
ANSWERED = f"{RUN_FOLDER}/answered.json"


@dataclass(frozen=True)
class LastReport:
    """The last report that was sent to slurmctld.

    :ivar report: the report; None if there was none.
    :ivar sent: when it was sent, in seconds since the epoch.
    """

    report: Report | None = None
    sent: float = 0.0
    runs: Runs = field(default_factory=dict)


@dataclass(frozen=True)
class ScriptFault:
    """A script of a prolog or an epilog that failed because of the machine.

    :ivar kind: ``prolog`` or ``epilog``.
    :ivar summary: the script, its message, and the job.
    :ivar time: when it failed, in whole seconds since the epoch.
    """

    kind: str
    summary: str
    time: int


@dataclass(frozen=True)
class ArbiterAnswer:
    """The answer to a question.

    :ivar question: the question's id.
    :ivar refuse: whether the job may be refused.
    :ivar words: why, or why not.
    """

    question: str
    refuse: bool
    words: str


def read_last_report(root: Root) -> LastReport:
    """Return the last report; an empty one if it cannot be read."""
    held = _read(root, LAST_REPORT)
    try:
        runs = {str(check): (int(count), int(ran)) for check, (count, ran) in held["runs"].items()}
        return LastReport(decode(held["report"]) if held["report"] else None, float(held["sent"]), runs)
    except (LookupError, TypeError, ValueError, AttributeError, UnreadableReport):
        return LastReport()


def write_last_report(root: Root, last: LastReport) -> None:
    """Save the last report.

    :raises OSError: it cannot be written.
    """
    text = encode(last.report) if last.report else ""
    _write(root, LAST_REPORT, {"report": text, "sent": last.sent, "runs": last.runs})


def write_question(root: Root, question: str, fault: ScriptFault | None = None) -> None:
    """Write a question for the report service.

    :param fault: the script that failed, if one did; it is in the node's report until the question is answered.
    :raises OSError: it cannot be written.
    """
    remove_file(root.at(ANSWERED))
    _write(root, ASKED, {"question": question, "fault": asdict(fault) if fault else None})


def pending_question(root: Root) -> str:
    """Return the id of the pending question; empty if there is none."""
    return str(_read(root, ASKED).get("question") or "")


def pending_fault(root: Root) -> ScriptFault | None:
    """Return the failed script of the pending question; None if it has none."""
    try:
        return ScriptFault(**_read(root, ASKED)["fault"])
    except (LookupError, TypeError):
        return None


def write_answer(root: Root, given: ArbiterAnswer) -> None:
    """Write the answer to a question.

    :raises OSError: it cannot be written.
    """
    _write(root, ANSWERED, {"question": given.question, "refuse": given.refuse, "words": given.words})
    if pending_question(root) == given.question:
        remove_file(root.at(ASKED))


def withdraw_question(root: Root) -> None:
    """Remove a question that was not answered in time."""
    remove_file(root.at(ASKED))


def read_answer(root: Root, question: str) -> ArbiterAnswer | None:
    """Return the answer to a question; None while there is none."""
    held = _read(root, ANSWERED)
    if held.get("question") != question:
        return None
    return ArbiterAnswer(question, held.get("refuse") is True, str(held.get("words")))


def _read(root: Root, path: str) -> dict[str, Any]:
    try:
        held = json.loads(root.text(path) or "{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _write(root: Root, path: str, held: dict[str, Any]) -> None:
    make_operators_folder(root, RUN_FOLDER)
    write_file(root.at(path), json.dumps(held) + "\n", mode=0o600)
