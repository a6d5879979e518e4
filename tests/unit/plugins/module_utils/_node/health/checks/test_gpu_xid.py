# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""XIDs in the kernel's log: errors, warnings, a user's, one nobody knows; kept over runs, mended by a reset."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PROLOG, Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_xid import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..conftest import Node
from ..kernel_log_playing import PlayedLog

OFF_THE_BUS = "NVRM: Xid (PCI:0001:00:00): 79, pid=1234, name=python, GPU has fallen off the bus."
GSP = (
    "NVRM: Xid (PCI:0002:00:00): 119, pid=4711, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0"
)
PAGE_FAULT = "NVRM: Xid (PCI:000b:00:00): 31, pid=77, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE"
REMAPPED = "NVRM: Xid (PCI:0003:00:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping"
RECOVERED = "NVRM: Xid (PCI:0002:00:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
LOADED_OF_NVIDIA = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 00:49:52 UTC 2024"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16-I3)"


def told(answer: Answer) -> list[tuple[str, str, str]]:
    """Verdict, device and summary of what was found."""
    return [(found.verdict, found.device, found.summary) for found in answer.findings]


def test_fails_for_an_error_and_keeps_it(log: PlayedLog) -> None:
    log.write(OFF_THE_BUS)
    answer = log.look(CHECK)
    (found,) = answer.findings
    assert told(answer) == [("fail", "0001:00:00.0", "GPU 0001:00:00.0: XID 79: the GPU has fallen off the bus")]
    assert (found.action, found.fault, found.cause, found.latch) == ("replace", "NHC2013", "node", True)
    assert not CHECK.blocks_job


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0002:00:00): 48, An uncorrectable double bit error (DBE) has been detected on GPU",
        "NVRM: Xid (0002:00:00): 48, pid=1, name=a",
        "NVRM: Xid (PCI:0002:00:00): 48",
        "NVRM: Xid (PCI:0002:00:00.0): 48, pid=1",
        "NVRM: Xid (PCI:0002:00:00 GPU-I:05): 48, pid=7194, name=python, Ch 00000008",
        "NVRM: Xid (PCI:0002:00:00 GPU-I:05 GPU-CI:00): 48, pid=7194, name=python, Ch 00000008",
    ],
)
def test_fails_however_the_driver_spells_it(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.device, found.fault, found.action) == ("fail", "0002:00:00.0", "NHC2014", "reset_gpu")
    assert "-i 0002:00:00.0" in found.hint


def test_fails_for_each_gpu_and_number_once(log: PlayedLog) -> None:
    log.write(GSP, GSP, OFF_THE_BUS, GSP, GSP.replace("0002", "0003"))
    answer = log.look(CHECK)
    assert [found.device for found in answer.findings] == ["0002:00:00.0", "0001:00:00.0", "0003:00:00.0"]
    counts = {one.device: one.value for one in answer.readings if one.device}
    assert counts == {"0001:00:00.0": 1, "0002:00:00.0": 3, "0003:00:00.0": 1}


def test_fails_again_in_later_runs(node: Node) -> None:
    """Others call an XID that they have reported before a pass, though the GPU is as broken as it was."""
    log = PlayedLog(node.folder)
    log.write(OFF_THE_BUS)
    assert [node.one(CHECK).verdict, node.one(CHECK).verdict, node.one(CHECK).verdict] == ["fail"] * 3
    log.write(OFF_THE_BUS)
    again = node.one(CHECK)
    assert (again.verdict, again.summary) == ("fail", "GPU 0001:00:00.0: XID 79: the GPU has fallen off the bus")
    node.boot("another boot")
    PlayedLog(node.folder)
    assert node.one(CHECK).verdict == "pass"


def test_passes_where_nothing_was_logged(log: PlayedLog) -> None:
    log.write("NVRM: GPU at PCI:0001:00:00: GPU-6a7e", "python3[12]: said NVRM: Xid (PCI:0001:00:00): 79, for fun")
    answer = log.look(CHECK)
    assert (answer.findings, answer.good) == ((), "no XID since the last look")
    assert [(one.name, one.value) for one in answer.readings] == [("gpu_xids", 0)]


def test_passes_what_was_read_before(log: PlayedLog) -> None:
    log.write(GSP)
    assert log.look(CHECK).findings
    log.write("something else")
    assert not log.look(CHECK).findings


def test_cannot_measure_without_the_log(log: PlayedLog) -> None:
    log.remove()
    answer = log.look(CHECK)
    assert told(answer) == [("unknown", "", "/dev/kmsg cannot be opened: No such file or directory")]
    assert not answer.readings


def test_cannot_measure_what_has_fallen_out_of_the_log_but_finds_the_rest(log: PlayedLog) -> None:
    log.write("one", GSP)
    log.forget(2)
    answer = log.look(CHECK, run={})
    assert [found.verdict for found in answer.findings] == ["fail", "unknown"]


def test_a_prolog_starts_no_process_and_leaves_the_rest_to_the_next_run(log: PlayedLog) -> None:
    log.write(GSP, OFF_THE_BUS)
    log.forget(2)
    assert [found.verdict for found in log.look(CHECK, tier=PROLOG).findings] == ["fail", "unknown"]
    assert [found.device for found in log.look(CHECK).findings] == ["0002:00:00.0", "0001:00:00.0"]


def test_a_prolog_reads_each_line_once_where_none_is_lost(log: PlayedLog) -> None:
    log.write(GSP)
    assert [found.verdict for found in log.look(CHECK, tier=PROLOG).findings] == ["fail"]
    assert log.look(CHECK, tier=PROLOG).findings == ()


def test_a_users_error_warns_once_and_is_not_kept(log: PlayedLog) -> None:
    log.write(PAGE_FAULT)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.cause, found.latch, found.fault) == ("warn", "user", False, "")
    assert "job's owner" in found.hint


def test_a_number_that_nobody_knows_warns(log: PlayedLog) -> None:
    log.write("NVRM: Xid (PCI:0001:00:00): 999, pid=1, name=x")
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.cause, found.latch) == ("warn", "node", True)
    assert found.summary == "GPU 0001:00:00.0: XID 999: its meaning is not known here"


def test_a_warning_of_the_machine_is_kept(log: PlayedLog) -> None:
    log.write(REMAPPED)
    (found,) = log.look(CHECK).findings
    assert (found.verdict, found.action, found.latch, found.fault) == ("warn", "reset_gpu", True, "NHC2001")


@pytest.mark.parametrize(("word", "verdict"), [("Fatal   ", "fail"), ("Nonfatal", "warn"), ("Non-fatal", "warn")])
def test_an_nvlink_error_says_itself_whether_it_is_fatal(log: PlayedLog, word: str, verdict: str) -> None:
    log.write(f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  {word} XC0 i0 Link 01 (0x021425c6 0x00000000)")
    assert [found.verdict for found in log.look(CHECK).findings] == [verdict]


def test_a_fatal_error_counts_whether_it_comes_first_or_last(log: PlayedLog) -> None:
    line = "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  {} XC0 i0 Link 01 (0x021425c6 0x00000000)"
    log.write(line.format("Fatal"), line.format("Nonfatal"))
    assert [found.verdict for found in log.look(CHECK).findings] == ["fail"]
    log.write(line.format("Nonfatal"), line.format("Fatal"))
    assert [found.verdict for found in log.look(CHECK).findings] == ["fail"]


def test_the_name_of_a_process_neither_hides_a_fatal_error_nor_mends_one(log: PlayedLog) -> None:
    """The name stands before what the driver says, and is the user's choice."""
    log.write("NVRM: Xid (PCI:0009:01:00): 149, pid=7, name=Nonfatal XC1, NETIR_LINK_EVT  Fatal XC0 i0 Link 01")
    assert [found.verdict for found in log.look(CHECK).findings] == ["fail"]
    log.write("NVRM: Xid (PCI:0009:01:00): 154, pid=7, name=to 0x0 (None)")
    assert log.look(CHECK).released == ()


@pytest.mark.parametrize("mended", [RECOVERED, LOADED, LOADED_OF_NVIDIA])
def test_a_reset_mends_what_it_can(log: PlayedLog, mended: str) -> None:
    log.write(GSP, OFF_THE_BUS, mended)
    answer = log.look(CHECK)
    assert [found.device for found in answer.findings] == ["0001:00:00.0"]
    assert "0002:00:00.0" in answer.released
    log.write(GSP)
    assert [found.device for found in log.look(CHECK).findings] == ["0002:00:00.0"]


@pytest.mark.parametrize("mended", [RECOVERED, LOADED, LOADED_OF_NVIDIA])
def test_a_reset_releases_what_an_earlier_run_found(log: PlayedLog, mended: str) -> None:
    log.write(GSP)
    assert log.look(CHECK).released == ()
    log.write(mended)
    answer = log.look(CHECK)
    assert (answer.findings, answer.released) == ((), ("0002:00:00.0",))


def test_a_reset_that_is_still_wanted_mends_nothing(log: PlayedLog) -> None:
    log.write(GSP, RECOVERED.replace("from 0x1 (GPU Reset Required) to 0x0 (None)", "to 0x1 (GPU Reset Required)"))
    answer = log.look(CHECK)
    assert [found.verdict for found in answer.findings] == ["fail", "warn"]
    assert answer.released == ()


def test_what_the_engine_keeps_ends_with_the_reset(node: Node) -> None:
    log = PlayedLog(node.folder)
    log.write(GSP)
    assert node.one(CHECK).verdict == "fail"
    assert node.one(CHECK).latched
    log.write(RECOVERED)
    assert node.one(CHECK).verdict == "pass"
    assert node.one(CHECK).verdict == "pass"


def test_sizes_without_gpus_of_nvidia_are_left_out() -> None:
    assert CHECK.applies(find_size("Standard_ND96isr_MI300X_v5")) == "Standard_ND96isr_MI300X_v5 has GPUs of AMD's"
    assert CHECK.applies(find_size("Standard_ND96asr_v4")) == ""
    assert CHECK.applies(None) == ""
