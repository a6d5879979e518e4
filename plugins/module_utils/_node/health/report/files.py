# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The report's settings, and what sending it and asking for permission leave for each other in /run/hpcai/health."""

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
    """What the file says.

    :ivar field: Extra or Comment: the field of the node's record. A site whose jobs use ``--extra`` takes Comment.
    :ivar refuse_jobs: whether a prolog may end a job's start.
    :ivar boot: whether the checks of the tier boot are run before slurmd starts.
    """

    field: str = EXTRA
    refuse_jobs: bool = True
    boot: bool = True


_FORM = instance_of(ReportSettings, {"field": choice(*FIELDS), "refuse_jobs": boolean, "boot": boolean})


def read_settings(root: Root) -> ReportSettings:
    """Return the settings; the defaults where the file is not there.

    :raises ConfigError: the file cannot be used.
    """
    return read_checked(root, CONFIG, _FORM) or ReportSettings()


def is_set_up(root: Root) -> bool:
    """Whether the role health_checks was here."""
    return root.exists(SETTINGS_FILE)


LAST_REPORT = f"{RUN_FOLDER}/told.json"
ASKED = f"{RUN_FOLDER}/asked/prolog.json"
"""A job's prolog or epilog waits for an answer. hpcai-health-report.path watches the folder."""
ANSWERED = f"{RUN_FOLDER}/answered.json"


@dataclass(frozen=True)
class LastReport:
    """What slurmctld was told last.

    :ivar report: the report; None where there was none.
    :ivar sent: when, in seconds since the epoch.
    """

    report: Report | None = None
    sent: float = 0.0
    runs: Runs = field(default_factory=dict)


@dataclass(frozen=True)
class ScriptFault:
    """A script of a prolog or an epilog that failed by the machine's own fault.

    :ivar kind: ``prolog`` or ``epilog``.
    :ivar summary: the script, what it said, and the job.
    :ivar time: when, in whole seconds since the epoch.
    """

    kind: str
    summary: str
    time: int


@dataclass(frozen=True)
class ArbiterAnswer:
    """What became of a question.

    :ivar question: the question's own mark.
    :ivar refuse: whether the job may be refused.
    :ivar words: why, or why not.
    """

    question: str
    refuse: bool
    words: str


def read_last_report(root: Root) -> LastReport:
    """Return what was told last; nothing where that cannot be read."""
    held = _read(root, LAST_REPORT)
    try:
        runs = {str(check): (int(count), int(ran)) for check, (count, ran) in held["runs"].items()}
        return LastReport(decode(held["report"]) if held["report"] else None, float(held["sent"]), runs)
    except (LookupError, TypeError, ValueError, AttributeError, UnreadableReport):
        return LastReport()


def write_last_report(root: Root, last: LastReport) -> None:
    """Keep what was told.

    :raises OSError: it cannot be written.
    """
    text = encode(last.report) if last.report else ""
    _write(root, LAST_REPORT, {"report": text, "sent": last.sent, "runs": last.runs})


def write_question(root: Root, question: str, fault: ScriptFault | None = None) -> None:
    """Leave a question.

    :param fault: the script that failed, where one did; it stands in the node's report until the question is answered.
    :raises OSError: it cannot be written.
    """
    remove_file(root.at(ANSWERED))
    _write(root, ASKED, {"question": question, "fault": asdict(fault) if fault else None})


def pending_question(root: Root) -> str:
    """Return the mark of the question that waits; empty if none does."""
    return str(_read(root, ASKED).get("question") or "")


def pending_fault(root: Root) -> ScriptFault | None:
    """Return the failed script that the question which waits is about; None where it is about none."""
    try:
        return ScriptFault(**_read(root, ASKED)["fault"])
    except (LookupError, TypeError):
        return None


def write_answer(root: Root, given: ArbiterAnswer) -> None:
    """Answer it.

    :raises OSError: it cannot be written.
    """
    _write(root, ANSWERED, {"question": given.question, "refuse": given.refuse, "words": given.words})
    if pending_question(root) == given.question:
        remove_file(root.at(ASKED))


def withdraw_question(root: Root) -> None:
    """Take back a question that nobody answered in time."""
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
