# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's log: read from its ring buffer, from the journal what the ring has lost, and nothing twice."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import kernel_log
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.kernel_log import (
    KernelLog,
    NoKernelLog,
    read_kernel_log,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, run

from ..health.kernel_log_playing import BOOTED, PlayedLog, entry
from ..health.playing import NOW, answering, no_run

XID = "NVRM: Xid (PCI:0001:00:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.fixture
def log(tmp_path: Path) -> PlayedLog:
    """The log of a kernel that has just started."""
    return PlayedLog(tmp_path)


def read(log: PlayedLog, after: tuple[int, int] | None = None, now: float = NOW) -> KernelLog:
    """Read the log with a complete journal."""
    return read_kernel_log(log.root, answering({"journalctl": "\n".join(log.journal)}), now, after)


def test_a_record_has_its_time_number_and_text(log: PlayedLog) -> None:
    log.write(XID, later_s=3.5)
    found = read(log)
    assert found.records[-1] == (BOOTED + 5.5, 1, 5_500_000, XID)
    assert found.last == (1, 5_500_000)


def test_continuation_lines_are_no_records(log: PlayedLog) -> None:
    log.write("one", "two")
    assert [record.text for record in read(log).records][1:] == ["one", "two"]


def test_records_that_root_wrote_are_read_like_the_kernels(log: PlayedLog) -> None:
    """Their level has another facility, and some kernels add the caller."""
    with open(log.root.at("/dev/kmsg"), "a", encoding="ascii") as file:
        file.write(f"11,1,9000000,-,caller=T99;{XID}\n")
    assert read(log).records[-1] == (BOOTED + 9, 1, 9_000_000, XID)


def test_a_text_of_several_lines_becomes_one_line(log: PlayedLog) -> None:
    log.write("NVRM: The NVIDIA GPU 0001:00:00.0\nNVRM: fallen off the bus")
    assert read(log).records[-1].text == "NVRM: The NVIDIA GPU 0001:00:00.0 NVRM: fallen off the bus"


def test_the_next_read_returns_only_new_records_and_starts_no_process(log: PlayedLog) -> None:
    before = read(log).last
    log.write("new")
    found = read_kernel_log(log.root, no_run, NOW, before)
    assert ([record.text for record in found.records], found.lost) == (["new"], "")
    assert read_kernel_log(log.root, no_run, NOW, found.last) == KernelLog((), found.last)


def test_a_log_that_started_again_is_read_from_its_start(log: PlayedLog) -> None:
    log.write("one", "two")
    assert len(read(log, after=(900, 900_000_000)).records) == 3


def test_overwritten_records_come_from_the_journal_once(log: PlayedLog) -> None:
    log.write("one", "two", "three", "four")
    log.forget(3)
    found = read(log)
    assert [record.text for record in found.records][1:] == ["one", "two", "three", "four"]
    assert [record.sequence for record in found.records] == [-1, -1, -1, 3, 4]
    assert found.lost == ""
    # An entry with the time and text of the ring's oldest record is that record; with the same time alone it is not.
    log.journal.append(entry(4_000_000, "at the same time"))
    assert [record.text for record in read(log, after=(1, 2_000_000)).records].count("three") == 1
    assert "at the same time" in [record.text for record in read(log, after=(1, 2_000_000)).records]


def test_only_the_missing_part_of_the_journal_is_read(log: PlayedLog) -> None:
    log.write("one", "two", "three", later_s=600)
    before = (1, 602_000_000)
    log.forget(3)
    asked: list[str] = []

    def noting(command: Sequence[str]) -> Result:
        asked.extend(command)
        return Result(tuple(command), 0, "\n".join(log.journal), "")

    found = read_kernel_log(log.root, noting, NOW, before)
    assert [record.text for record in found.records] == ["two", "three"]
    assert f"--since=@{int(BOOTED) + 602}" in asked
    assert f"--until=@{int(BOOTED) + 1802 + 60}" in asked
    assert "--lines=20000" in asked


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((127, ""), "there is no journalctl"),
        ((1, "No journal files were opened due to insufficient permissions."), "journalctl failed (exit status 1): No"),
        ((124, "no answer within 2 s"), "journalctl failed (exit status 124): no answer within 2 s"),
        ((0, "-- No entries --"), "the journal does not contain them"),
    ],
)
def test_lost_records_are_reported(log: PlayedLog, answer: tuple[int, str], why: str) -> None:
    log.write("one", "two")
    log.forget(2)
    found = read_kernel_log(log.root, answering({"journalctl": answer}), NOW)
    assert found.lost.startswith(f"2 records of the kernel log were overwritten, and {why}")
    assert [record.text for record in found.records] == ["two"]


def test_a_journal_with_too_many_entries_is_reported(log: PlayedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_MOST_ENTRIES", 2)
    log.write("one", "two")
    log.forget(2)
    assert read(log).lost.endswith("the journal has more than 2 of them")


def test_unreadable_entries_are_left_out(log: PlayedLog) -> None:
    log.write("one", "two", "three")
    log.forget(3)
    log.journal[:] = [
        "no json",
        "[1]",
        entry(2_000_000, "x", MESSAGE=None),
        entry(2_000_000, "x", MESSAGE=list(b"caf\xe9")),
        *log.journal[-2:],
    ]
    assert [record.text for record in read(log).records] == ["caf\ufffd", "two", "three"]


def test_the_journal_is_not_read_if_no_process_may_be_started(log: PlayedLog) -> None:
    log.write("one", "two")
    log.forget(2)
    assert read_kernel_log(log.root, no_run, NOW, ask_journal=False).lost.endswith("the journal was not read")


def test_records_of_last_year_have_the_right_time(log: PlayedLog) -> None:
    """Other tools add the current year to a time without year, so that records of December are in the future."""
    new_year = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp()
    log.write(XID, later_s=3600)
    assert read(log, now=new_year + 60).records[-1].when == pytest.approx(new_year + 60 - 7200 + 3602)


def test_log_files_are_not_read_whatever_their_time_format(log: PlayedLog) -> None:
    """Ubuntu 24.04 writes 2026-11-22T16:39:00.123456+00:00 there, others write Nov 22 16:39:00."""
    log.remove()
    for name, time_of in (("syslog", "2026-11-22T16:39:00.123456+00:00"), ("messages", "Nov 22 16:39:00")):
        file = Path(log.root.at(f"/var/log/{name}"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{time_of} node kernel: {XID}\n", encoding="ascii")
    with pytest.raises(NoKernelLog, match=r"/dev/kmsg cannot be opened: No such file"):
        read(log)


@pytest.mark.parametrize(("path", "why"), [("/proc/uptime", "cannot read the uptime"), ("/dev/kmsg", "is empty")])
def test_a_log_without_time_or_records_is_an_error(log: PlayedLog, path: str, why: str) -> None:
    Path(log.root.at(path)).write_text("", encoding="ascii")
    with pytest.raises(NoKernelLog, match=why):
        read(log)


def test_a_log_that_is_too_long_is_an_error(log: PlayedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_MOST_BYTES", 0)
    with pytest.raises(NoKernelLog, match="has more than 0 MiB"):
        read(log)


def test_this_machines_log_is_read_without_waiting() -> None:
    if not os.access(kernel_log.RING, os.R_OK):
        pytest.skip("the tests have no access to this machine's kernel log")
    try:
        os.close(os.open(kernel_log.RING, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"the tests have no access to this machine's kernel log: {error}")
    start = time.monotonic()
    found = read_kernel_log(Root(), run, time.time())
    assert time.monotonic() - start < 10
    numbers = [record.sequence for record in found.records if record.sequence >= 0]
    assert numbers == sorted(set(numbers))
    assert all(record.when < time.time() + 2 for record in found.records)
