# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's log: out of its ring, out of the journal where the ring has forgotten, and nothing twice."""

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
    """A kernel that has said hello."""
    return PlayedLog(tmp_path)


def read(log: PlayedLog, after: tuple[int, int] | None = None, now: float = NOW) -> KernelLog:
    """Read with a journal that has all."""
    return read_kernel_log(log.root, answering({"journalctl": "\n".join(log.journal)}), now, after)


def test_a_record_has_its_number_its_time_and_its_text(log: PlayedLog) -> None:
    log.write(XID, later_s=3.5)
    found = read(log)
    assert found.records[-1] == (BOOTED + 5.5, 1, 5_500_000, XID)
    assert found.last == (1, 5_500_000)


def test_lines_that_belong_to_a_record_are_none_themselves(log: PlayedLog) -> None:
    log.write("one", "two")
    assert [record.text for record in read(log).records][1:] == ["one", "two"]


def test_what_root_wrote_into_the_log_is_read_as_the_kernels_own(log: PlayedLog) -> None:
    """Its level has another facility, and some kernels tell who called."""
    with open(log.root.at("/dev/kmsg"), "a", encoding="ascii") as file:
        file.write(f"11,1,9000000,-,caller=T99;{XID}\n")
    assert read(log).records[-1] == (BOOTED + 9, 1, 9_000_000, XID)


def test_a_text_of_several_lines_is_one_line(log: PlayedLog) -> None:
    log.write("NVRM: The NVIDIA GPU 0001:00:00.0\nNVRM: fallen off the bus")
    assert read(log).records[-1].text == "NVRM: The NVIDIA GPU 0001:00:00.0 NVRM: fallen off the bus"


def test_only_what_is_new_is_read_the_next_time_and_no_process_is_started(log: PlayedLog) -> None:
    before = read(log).last
    log.write("new")
    found = read_kernel_log(log.root, no_run, NOW, before)
    assert ([record.text for record in found.records], found.lost) == (["new"], "")
    assert read_kernel_log(log.root, no_run, NOW, found.last) == KernelLog((), found.last)


def test_a_log_that_began_anew_is_read_from_its_start(log: PlayedLog) -> None:
    log.write("one", "two")
    assert len(read(log, after=(900, 900_000_000)).records) == 3


def test_what_fell_out_of_the_ring_comes_from_the_journal_once(log: PlayedLog) -> None:
    log.write("one", "two", "three", "four")
    log.forget(3)
    found = read(log)
    assert [record.text for record in found.records][1:] == ["one", "two", "three", "four"]
    assert [record.sequence for record in found.records] == [-1, -1, -1, 3, 4]
    assert found.lost == ""
    # The same time and text as the ring's oldest record is that record; the same time alone is not.
    log.journal.append(entry(4_000_000, "at the same time"))
    assert [record.text for record in read(log, after=(1, 2_000_000)).records].count("three") == 1
    assert "at the same time" in [record.text for record in read(log, after=(1, 2_000_000)).records]


def test_the_journal_is_asked_for_no_more_than_is_missing(log: PlayedLog) -> None:
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
def test_what_nobody_has_any_more_is_said(log: PlayedLog, answer: tuple[int, str], why: str) -> None:
    log.write("one", "two")
    log.forget(2)
    found = read_kernel_log(log.root, answering({"journalctl": answer}), NOW)
    assert found.lost.startswith(f"2 records of the kernel log were overwritten, and {why}")
    assert [record.text for record in found.records] == ["two"]


def test_a_journal_that_is_cut_short_is_said(log: PlayedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_MOST_ENTRIES", 2)
    log.write("one", "two")
    log.forget(2)
    assert read(log).lost.endswith("the journal has more than 2 of them")


def test_entries_that_cannot_be_read_are_left_out(log: PlayedLog) -> None:
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


def test_where_no_process_may_be_started_the_journal_is_not_asked(log: PlayedLog) -> None:
    log.write("one", "two")
    log.forget(2)
    assert read_kernel_log(log.root, no_run, NOW, ask_journal=False).lost.endswith("the journal was not read")


def test_the_year_may_change_meanwhile(log: PlayedLog) -> None:
    """Other tools put this year's number before a time without year: what December said is then to come."""
    new_year = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp()
    log.write(XID, later_s=3600)
    assert read(log, now=new_year + 60).records[-1].when == pytest.approx(new_year + 60 - 7200 + 3602)


def test_log_files_are_not_read_however_they_write_the_time(log: PlayedLog) -> None:
    """Ubuntu 24.04 writes 2026-11-22T16:39:00.123456+00:00 there, others Nov 22 16:39:00: neither is looked at."""
    log.remove()
    for name, time_of in (("syslog", "2026-11-22T16:39:00.123456+00:00"), ("messages", "Nov 22 16:39:00")):
        file = Path(log.root.at(f"/var/log/{name}"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{time_of} node kernel: {XID}\n", encoding="ascii")
    with pytest.raises(NoKernelLog, match=r"/dev/kmsg cannot be opened: No such file"):
        read(log)


@pytest.mark.parametrize(("path", "why"), [("/proc/uptime", "cannot read the uptime"), ("/dev/kmsg", "is empty")])
def test_a_log_without_time_or_records_is_none(log: PlayedLog, path: str, why: str) -> None:
    Path(log.root.at(path)).write_text("", encoding="ascii")
    with pytest.raises(NoKernelLog, match=why):
        read(log)


def test_a_log_without_end_is_not_read_for_ever(log: PlayedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_MOST_BYTES", 0)
    with pytest.raises(NoKernelLog, match="has more than 0 MiB"):
        read(log)


def test_this_machine_s_log_is_read_at_once_and_nothing_is_waited_for() -> None:
    if not os.access(kernel_log.RING, os.R_OK):
        pytest.skip("this machine's kernel log is kept from its tests")
    try:
        os.close(os.open(kernel_log.RING, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        pytest.skip(f"this machine's kernel log is kept from its tests: {error}")
    start = time.monotonic()
    found = read_kernel_log(Root(), run, time.time())
    assert time.monotonic() - start < 10
    numbers = [record.sequence for record in found.records if record.sequence >= 0]
    assert numbers == sorted(set(numbers))
    assert all(record.when < time.time() + 2 for record in found.records)
