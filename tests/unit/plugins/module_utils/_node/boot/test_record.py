# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of boot steps: what they contain, and when they are ignored."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import record
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Outcome
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, UNKNOWN


def begin(machine: Any, make_step: Any) -> record.Record:
    """Write and return the record of a running step."""
    begun = record.begun(machine.root, make_step(Outcome(PASS, "")))
    assert record.write(machine.root, begun) == ""
    return begun


def test_a_running_step_is_recorded_as_running(machine: Any, make_step: Any) -> None:
    begin(machine, make_step)
    assert machine.read().verdict == record.RUNNING


@pytest.mark.parametrize("fate", ["gone", "another"])
def test_a_step_whose_process_is_gone_was_interrupted(machine: Any, make_step: Any, fate: str) -> None:
    begin(machine, make_step)
    if fate == "gone":
        (machine.folder / f"proc/{os.getpid()}/stat").unlink()
    else:
        machine.process(os.getpid(), started=99999999)
    known = machine.read()
    assert known.verdict == UNKNOWN
    assert known.summary.startswith(f"it was interrupted: process {os.getpid()}")
    assert known.seconds is None


@pytest.mark.parametrize("ended", [True, False])
def test_a_record_of_another_boot_is_ignored(machine: Any, make_step: Any, ended: bool) -> None:
    """Some containers keep /run; a verdict of an earlier boot must not count in this one."""
    begun = begin(machine, make_step)
    if ended:
        record.write(machine.root, record.ended(begun, Outcome(PASS, "done"), 1.0))
        assert machine.read().verdict == PASS
    machine.boot("99999999-2222-3333-4444-555555555555")
    assert machine.read() is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "changes": 1}', "null"]
)
def test_a_broken_record_is_ignored(machine: Any, text: str) -> None:
    machine.write("/run/hpcai/boot/demo.json", text)
    assert machine.read() is None


def test_a_record_of_another_step_is_ignored(machine: Any, make_step: Any) -> None:
    begin(machine, make_step)
    (machine.folder / "run/hpcai/boot/demo.json").rename(machine.folder / "run/hpcai/boot/other.json")
    assert machine.read("other") is None


def test_all_users_can_read_a_record(machine: Any, make_step: Any) -> None:
    before = os.umask(0o077)
    try:
        begin(machine, make_step)
    finally:
        os.umask(before)
    assert (machine.folder / "run/hpcai/boot").stat().st_mode & 0o777 == 0o755
    assert (machine.folder / "run/hpcai/boot/demo.json").stat().st_mode & 0o777 == 0o644


def test_the_record_of_a_finished_step_keeps_the_start_time(machine: Any, make_step: Any) -> None:
    begun = begin(machine, make_step)
    record.write(machine.root, record.ended(begun, Outcome(FAIL, "broken", "mend it", ("one",), {"a": 1}), 1.234))
    known = machine.read()
    assert (known.started, known.seconds, known.verdict) == (begun.started, 1.23, FAIL)
    assert (known.changes, known.details) == (("one",), {"a": 1})
    text = (machine.folder / "run/hpcai/boot/demo.json").read_text(encoding="utf-8")
    assert json.loads(text)["schema"] == 1
