# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""XIDs, SXids and other messages of NVIDIA's driver."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PROLOG, Answer
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_log import (
    GPU_DRIVER_LOG,
    GPU_SXID,
    GPU_XID,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..conftest import Node
from ..kernel_log_playing import BOOTED, PlayedLog
from ..playing import NOW

OFF_THE_BUS = "NVRM: Xid (PCI:0001:00:00): 79, pid=1234, name=python, GPU has fallen off the bus."
GSP = (
    "NVRM: Xid (PCI:0002:00:00): 119, pid=4711, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU0"
)
PAGE_FAULT = "NVRM: Xid (PCI:000b:00:00): 31, pid=77, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE"
REMAPPED = "NVRM: Xid (PCI:0003:00:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping"
RECOVERED = "NVRM: Xid (PCI:0002:00:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
LOADED_OF_NVIDIA = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 00:49:52 UTC 2024"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16-I3)"


def summaries(answer: Answer) -> list[tuple[str, str, str]]:
    """Return verdict, device and summary of each finding."""
    return [(found.verdict, found.device, found.summary) for found in answer.findings]


def test_gpu_xid_fails_for_an_error_and_latches_it(log: PlayedLog) -> None:
    log.write(OFF_THE_BUS)
    answer = log.look(GPU_XID)
    (found,) = answer.findings
    assert summaries(answer) == [("fail", "0001:00:00.0", "GPU 0001:00:00.0: XID 79: the GPU has fallen off the bus")]
    assert (found.action, found.fault, found.cause, found.latch) == ("replace", "NHC2013", "node", True)
    assert not GPU_XID.blocks_job


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
def test_gpu_xid_fails_for_each_format_of_the_line(log: PlayedLog, line: str) -> None:
    log.write(line)
    (found,) = log.look(GPU_XID).findings
    assert (found.verdict, found.device, found.fault, found.action) == ("fail", "0002:00:00.0", "NHC2014", "reset_gpu")
    assert "-i 0002:00:00.0" in found.hint


def test_gpu_xid_fails_for_each_gpu_and_number_once(log: PlayedLog) -> None:
    log.write(GSP, GSP, OFF_THE_BUS, GSP, GSP.replace("0002", "0003"))
    answer = log.look(GPU_XID)
    assert [found.device for found in answer.findings] == ["0002:00:00.0", "0001:00:00.0", "0003:00:00.0"]
    counts = {one.device: one.value for one in answer.readings if one.device}
    assert counts == {"0001:00:00.0": 1, "0002:00:00.0": 3, "0003:00:00.0": 1}


def test_gpu_xid_fails_again_in_later_runs(node: Node) -> None:
    """Other health checks pass after they have reported an XID, although the GPU is still broken."""
    log = PlayedLog(node.folder)
    log.write(OFF_THE_BUS)
    assert [node.one(GPU_XID).verdict, node.one(GPU_XID).verdict, node.one(GPU_XID).verdict] == ["fail"] * 3
    log.write(OFF_THE_BUS)
    again = node.one(GPU_XID)
    assert (again.verdict, again.summary) == ("fail", "GPU 0001:00:00.0: XID 79: the GPU has fallen off the bus")
    node.boot("another boot")
    PlayedLog(node.folder)
    assert node.one(GPU_XID).verdict == "pass"


def test_gpu_xid_passes_if_nothing_was_logged(log: PlayedLog) -> None:
    log.write("NVRM: GPU at PCI:0001:00:00: GPU-6a7e", "python3[12]: said NVRM: Xid (PCI:0001:00:00): 79, for fun")
    answer = log.look(GPU_XID)
    assert (answer.findings, answer.good) == ((), "no XID since the last run")
    assert [(one.name, one.value) for one in answer.readings] == [("gpu_xids", 0)]


def test_gpu_xid_passes_lines_of_earlier_runs(log: PlayedLog) -> None:
    log.write(GSP)
    assert log.look(GPU_XID).findings
    log.write("something else")
    assert not log.look(GPU_XID).findings


def test_gpu_xid_cannot_measure_without_the_log(log: PlayedLog) -> None:
    log.remove()
    answer = log.look(GPU_XID)
    assert summaries(answer) == [("unknown", "", "/dev/kmsg cannot be opened: No such file or directory")]
    assert not answer.readings


def test_gpu_xid_cannot_measure_lost_lines_but_finds_the_others(log: PlayedLog) -> None:
    log.write("one", GSP)
    log.forget(2)
    answer = log.look(GPU_XID, run={})
    assert [found.verdict for found in answer.findings] == ["fail", "unknown"]


def test_gpu_xid_a_prolog_leaves_lost_lines_to_the_next_run(log: PlayedLog) -> None:
    log.write(GSP, OFF_THE_BUS)
    log.forget(2)
    assert [found.verdict for found in log.look(GPU_XID, tier=PROLOG).findings] == ["fail", "unknown"]
    assert [found.device for found in log.look(GPU_XID).findings] == ["0002:00:00.0", "0001:00:00.0"]


def test_gpu_xid_a_prolog_reads_each_line_once(log: PlayedLog) -> None:
    log.write(GSP)
    assert [found.verdict for found in log.look(GPU_XID, tier=PROLOG).findings] == ["fail"]
    assert log.look(GPU_XID, tier=PROLOG).findings == ()


def test_gpu_xid_a_users_error_warns_once_and_is_not_latched(log: PlayedLog) -> None:
    log.write(PAGE_FAULT)
    (found,) = log.look(GPU_XID).findings
    assert (found.verdict, found.cause, found.latch, found.fault) == ("warn", "user", False, "")
    assert "job's owner" in found.hint


def test_gpu_xid_an_unknown_number_warns(log: PlayedLog) -> None:
    log.write("NVRM: Xid (PCI:0001:00:00): 999, pid=1, name=x")
    (found,) = log.look(GPU_XID).findings
    assert (found.verdict, found.cause, found.latch) == ("warn", "node", True)
    assert found.summary == "GPU 0001:00:00.0: XID 999: its meaning is not known"


def test_gpu_xid_a_warning_about_the_machine_is_latched(log: PlayedLog) -> None:
    log.write(REMAPPED)
    (found,) = log.look(GPU_XID).findings
    assert (found.verdict, found.action, found.latch, found.fault) == ("warn", "reset_gpu", True, "NHC2001")


@pytest.mark.parametrize(("word", "verdict"), [("Fatal   ", "fail"), ("Nonfatal", "warn"), ("Non-fatal", "warn")])
def test_gpu_xid_the_line_of_an_nvlink_error_has_its_severity(log: PlayedLog, word: str, verdict: str) -> None:
    log.write(f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  {word} XC0 i0 Link 01 (0x021425c6 0x00000000)")
    assert [found.verdict for found in log.look(GPU_XID).findings] == [verdict]


def test_gpu_xid_a_fatal_error_counts_in_any_order(log: PlayedLog) -> None:
    line = "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  {} XC0 i0 Link 01 (0x021425c6 0x00000000)"
    log.write(line.format("Fatal"), line.format("Nonfatal"))
    assert [found.verdict for found in log.look(GPU_XID).findings] == ["fail"]
    log.write(line.format("Nonfatal"), line.format("Fatal"))
    assert [found.verdict for found in log.look(GPU_XID).findings] == ["fail"]


def test_gpu_xid_the_name_of_a_process_cannot_hide_or_clear_errors(log: PlayedLog) -> None:
    """The name comes before the driver's text, and the user chooses it."""
    log.write("NVRM: Xid (PCI:0009:01:00): 149, pid=7, name=Nonfatal XC1, NETIR_LINK_EVT  Fatal XC0 i0 Link 01")
    assert [found.verdict for found in log.look(GPU_XID).findings] == ["fail"]
    log.write("NVRM: Xid (PCI:0009:01:00): 154, pid=7, name=to 0x0 (None)")
    assert log.look(GPU_XID).released == ()


@pytest.mark.parametrize("reset_line", [RECOVERED, LOADED, LOADED_OF_NVIDIA])
def test_gpu_xid_a_reset_clears_errors_that_need_a_reset(log: PlayedLog, reset_line: str) -> None:
    log.write(GSP, OFF_THE_BUS, reset_line)
    answer = log.look(GPU_XID)
    assert [found.device for found in answer.findings] == ["0001:00:00.0"]
    assert "0002:00:00.0" in answer.released
    log.write(GSP)
    assert [found.device for found in log.look(GPU_XID).findings] == ["0002:00:00.0"]


@pytest.mark.parametrize("reset_line", [RECOVERED, LOADED, LOADED_OF_NVIDIA])
def test_gpu_xid_a_reset_releases_what_an_earlier_run_found(log: PlayedLog, reset_line: str) -> None:
    log.write(GSP)
    assert log.look(GPU_XID).released == ()
    log.write(reset_line)
    answer = log.look(GPU_XID)
    assert (answer.findings, answer.released) == ((), ("0002:00:00.0",))


def test_gpu_xid_a_reset_that_is_still_required_clears_nothing(log: PlayedLog) -> None:
    log.write(GSP, RECOVERED.replace("from 0x1 (GPU Reset Required) to 0x0 (None)", "to 0x1 (GPU Reset Required)"))
    answer = log.look(GPU_XID)
    assert [found.verdict for found in answer.findings] == ["fail", "warn"]
    assert answer.released == ()


def test_gpu_xid_a_latched_error_ends_with_the_reset(node: Node) -> None:
    log = PlayedLog(node.folder)
    log.write(GSP)
    assert node.one(GPU_XID).verdict == "fail"
    assert node.one(GPU_XID).latched
    log.write(RECOVERED)
    assert node.one(GPU_XID).verdict == "pass"
    assert node.one(GPU_XID).verdict == "pass"


def test_gpu_xid_applies_to_sizes_with_nvidia_gpus() -> None:
    assert GPU_XID.applies(find_size("Standard_ND96isr_MI300X_v5")) == "Standard_ND96isr_MI300X_v5 has AMD GPUs"
    assert GPU_XID.applies(find_size("Standard_ND96asr_v4")) == ""
    assert GPU_XID.applies(None) == ""


FATAL = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
DATA = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030, 0x00000000, 0x10100030}"
SEVERITY = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00"
OTHER = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
CORRECTED = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 11012, Non-fatal, Link 32 ingress corrected ECC error (First)"


def test_gpu_sxid_fails_for_a_fatal_one(log: PlayedLog) -> None:
    log.write(FATAL, SEVERITY, DATA, FATAL)
    answer = log.look(GPU_SXID)
    (found,) = answer.findings
    assert (found.verdict, found.summary) == ("fail", "NVSwitch 0000:a9:00.0: fatal SXid 20034")
    assert (found.device, found.action, found.fault, found.latch) == ("0000:a9:00.0", "reboot", "NHC2016", True)
    assert found.hint.startswith("Drain the node and restart the machine")
    assert {one.name: one.value for one in answer.readings}["nvswitch_fatal_sxids"] == 2


def test_gpu_sxid_warns_of_a_nonfatal_one(log: PlayedLog) -> None:
    log.write(OTHER)
    answer = log.look(GPU_SXID)
    (found,) = answer.findings
    assert (found.verdict, found.summary) == ("warn", "NVSwitch 0000:05:00.0: non-fatal SXid 12028")
    assert (found.action, found.fault, found.latch) == ("observe", "", True)
    assert found.hint.startswith("'journalctl -k -b' has the line")
    assert [one.value for one in answer.readings] == [0, 1, 0]


def test_gpu_sxid_passes_what_the_switch_has_corrected(log: PlayedLog) -> None:
    log.write(CORRECTED, "nvidia-nvswitch3: open (major=235)", f"sshd[1]: {FATAL}")
    answer = log.look(GPU_SXID)
    assert not answer.findings
    assert [one.value for one in answer.readings] == [0, 0, 1]


def write_manager_log(log: PlayedLog, *lines: tuple[float, str]) -> None:
    """Add lines to the fabric manager's log, with these times, which it writes in local time."""
    file = Path(log.root.at("/var/log/fabricmanager.log"))
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="ascii") as opened:
        for when, text in lines:
            opened.write(time.strftime(f"[%b %d %Y %H:%M:%S] [ERROR] [tid 841] {text}\n", time.localtime(when)))


BY_MANAGER = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:A9:00.0 physical id 3 port"


def test_gpu_sxid_fails_for_lines_of_the_fabric_manager_in_this_boot(log: PlayedLog) -> None:
    write_manager_log(log, (BOOTED - 60, BY_MANAGER.replace("20034", "20009")), (NOW - 600, BY_MANAGER))
    assert [found.summary for found in log.look(GPU_SXID).findings] == ["NVSwitch 0000:a9:00.0: fatal SXid 20034"]
    assert not log.look(GPU_SXID).findings
    write_manager_log(log, (NOW - 60, BY_MANAGER.replace("fatal", "non-fatal").replace("20034", "12028")))
    assert [found.verdict for found in log.look(GPU_SXID).findings] == ["warn"]


def test_gpu_sxid_fails_once_for_an_error_in_both_logs(log: PlayedLog) -> None:
    log.write(FATAL.replace("0000:a9", "00000000:A9"))
    write_manager_log(log, (NOW - 600, BY_MANAGER))
    answer = log.look(GPU_SXID)
    assert (len(answer.findings), answer.readings[0].value) == (1, 1)


def test_gpu_sxid_cannot_measure_with_the_managers_log_only(log: PlayedLog) -> None:
    log.remove()
    write_manager_log(log, (NOW - 600, BY_MANAGER), (NOW - 300, "[unfinished"))
    answer = log.look(GPU_SXID)
    assert [found.verdict for found in answer.findings] == ["fail", "unknown"]
    assert not answer.readings


def test_gpu_sxid_applies_to_sizes_with_nvswitches() -> None:
    assert GPU_SXID.applies(find_size("Standard_ND96asr_v4")) == ""
    assert GPU_SXID.applies(find_size("Standard_NC24ads_A100_v4")) == "Standard_NC24ads_A100_v4 has no NVSwitch"
    assert GPU_SXID.applies(find_size("Standard_ND96isr_MI300X_v5")) == "Standard_ND96isr_MI300X_v5 has AMD GPUs"


def test_gpu_sxid_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(GPU_SXID) == ["unknown", "unknown"]


SINCE_OFF = "NVRM: GPU 0001:00:00.0: GPU has fallen off the bus."
AT_LOAD = (
    "NVRM: The NVIDIA GPU 0001:00:00.0\nNVRM: (PCI ID: 10de:20b0) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)


@pytest.mark.parametrize(
    ("line", "summary", "action", "fault"),
    [
        (SINCE_OFF, "GPU 0001:00:00.0 has fallen off the bus", "replace", "NHC2013"),
        (AT_LOAD, "GPU 0001:00:00.0 has fallen off the bus", "replace", "NHC2013"),
        (
            "NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
            "NVIDIA's driver could not initialise GPU 0002:00:00.0",
            "reboot",
            "NHC2015",
        ),
        (
            "NVRM: GPU 0002:00:00.0: rm_init_adapter failed, device minor number 1",
            "NVIDIA's driver could not initialise GPU 0002:00:00.0",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia: probe of 0003:00:00.0 failed with error -1",
            "NVIDIA's driver could not attach to GPU 0003:00:00.0",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia 0003:00:00.0: probe with driver nvidia failed with error -1",
            "NVIDIA's driver could not attach to GPU 0003:00:00.0",
            "reboot",
            "NHC2015",
        ),
        (
            "nvidia-uvm: uvm_global.c uvm_global_set_fatal_error_impl[pid:9] ERROR: Encountered a global fatal error",
            "the driver's unified memory (nvidia-uvm) had a fatal error: no CUDA program can start",
            "reboot",
            "NHC2015",
        ),
    ],
)
def test_gpu_driver_log_fails_for_errors_of_the_driver(
    log: PlayedLog, line: str, summary: str, action: str, fault: str
) -> None:
    log.write(line)
    (found,) = log.look(GPU_DRIVER_LOG).findings
    assert (found.verdict, found.summary, found.action, found.fault) == ("fail", summary, action, fault)
    assert found.latch


def test_gpu_driver_log_fails_once_for_two_lines_of_one_failure(log: PlayedLog) -> None:
    log.write(
        "NVRM: GPU 0002:00:00.0: RmInitAdapter failed! (0x62:0x40:2393)",
        "NVRM: GPU 0002:00:00.0: rm_init_adapter failed, device minor number 1",
    )
    answer = log.look(GPU_DRIVER_LOG)
    assert len(answer.findings) == 1
    assert [one.value for one in answer.readings] == [2]


def test_gpu_driver_log_a_library_of_another_version_warns(log: PlayedLog) -> None:
    log.write("NVRM: API mismatch: the client 'python' (pid 5) has the version 550.54.15, but this kernel module")
    assert [found.verdict for found in log.look(GPU_DRIVER_LOG).findings] == ["warn"]


def test_gpu_driver_log_passes_if_the_driver_was_only_loaded(log: PlayedLog) -> None:
    log.write("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15", f"python[3]: {SINCE_OFF}")
    answer = log.look(GPU_DRIVER_LOG)
    assert (answer.findings, [one.value for one in answer.readings]) == ((), [0])


def test_gpu_driver_log_cannot_measure_without_the_log_or_with_lost_lines(log: PlayedLog) -> None:
    assert log.look_without_log(GPU_DRIVER_LOG) == ["unknown", "unknown"]
