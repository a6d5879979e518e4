# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SXids of NVSwitches: fatal, others, corrected by the switch, and none."""

from __future__ import annotations

import time
from pathlib import Path

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.gpu_sxid import CHECK
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size

from ..kernel_log_playing import BOOTED, PlayedLog
from ..playing import NOW

FATAL = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
DATA = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Data {0x50610002, 0x10100030, 0x00000000, 0x10100030}"
SEVERITY = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00"
OTHER = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
CORRECTED = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 11012, Non-fatal, Link 32 ingress corrected ECC error (First)"


def test_fails_for_a_fatal_one(log: PlayedLog) -> None:
    log.write(FATAL, SEVERITY, DATA, FATAL)
    answer = log.look(CHECK)
    (found,) = answer.findings
    assert (found.verdict, found.summary) == ("fail", "NVSwitch 0000:a9:00.0: fatal SXid 20034")
    assert (found.device, found.action, found.fault, found.latch) == ("0000:a9:00.0", "reboot", "NHC2016", True)
    assert found.hint.startswith("Drain the node and restart the machine")
    assert {one.name: one.value for one in answer.readings}["nvswitch_fatal_sxids"] == 2


def test_another_one_warns(log: PlayedLog) -> None:
    log.write(OTHER)
    answer = log.look(CHECK)
    (found,) = answer.findings
    assert (found.verdict, found.summary) == ("warn", "NVSwitch 0000:05:00.0: non-fatal SXid 12028")
    assert (found.action, found.fault, found.latch) == ("observe", "", True)
    assert found.hint.startswith("'journalctl -k -b' has the line")
    assert [one.value for one in answer.readings] == [0, 1, 0]


def test_passes_what_the_switch_has_corrected(log: PlayedLog) -> None:
    log.write(CORRECTED, "nvidia-nvswitch3: open (major=235)", f"sshd[1]: {FATAL}")
    answer = log.look(CHECK)
    assert not answer.findings
    assert [one.value for one in answer.readings] == [0, 0, 1]


def manager_wrote(log: PlayedLog, *lines: tuple[float, str]) -> None:
    """Let the fabric manager have written lines at times, in local time as it does."""
    file = Path(log.root.at("/var/log/fabricmanager.log"))
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="ascii") as opened:
        for when, text in lines:
            opened.write(time.strftime(f"[%b %d %Y %H:%M:%S] [ERROR] [tid 841] {text}\n", time.localtime(when)))


BY_MANAGER = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:A9:00.0 physical id 3 port"


def test_fails_for_what_the_fabric_manager_wrote_in_this_boot(log: PlayedLog) -> None:
    manager_wrote(log, (BOOTED - 60, BY_MANAGER.replace("20034", "20009")), (NOW - 600, BY_MANAGER))
    assert [found.summary for found in log.look(CHECK).findings] == ["NVSwitch 0000:a9:00.0: fatal SXid 20034"]
    assert not log.look(CHECK).findings
    manager_wrote(log, (NOW - 60, BY_MANAGER.replace("fatal", "non-fatal").replace("20034", "12028")))
    assert [found.verdict for found in log.look(CHECK).findings] == ["warn"]


def test_fails_once_for_what_both_logs_have_however_they_spell_the_address(log: PlayedLog) -> None:
    log.write(FATAL.replace("0000:a9", "00000000:A9"))
    manager_wrote(log, (NOW - 600, BY_MANAGER))
    answer = log.look(CHECK)
    assert (len(answer.findings), answer.readings[0].value) == (1, 1)


def test_cannot_measure_without_the_kernels_log_though_the_manager_has_one(log: PlayedLog) -> None:
    log.remove()
    manager_wrote(log, (NOW - 600, BY_MANAGER), (NOW - 300, "[unfinished"))
    answer = log.look(CHECK)
    assert [found.verdict for found in answer.findings] == ["fail", "unknown"]
    assert not answer.readings


def test_sizes_without_nvswitch_are_left_out() -> None:
    assert CHECK.applies(find_size("Standard_ND96asr_v4")) == ""
    assert CHECK.applies(find_size("Standard_NC24ads_A100_v4")) == "Standard_NC24ads_A100_v4 has no NVSwitch"
    assert CHECK.applies(find_size("Standard_ND96isr_MI300X_v5")) == "Standard_ND96isr_MI300X_v5 has GPUs of AMD's"


def test_cannot_measure_without_the_log_or_what_it_has_lost(log: PlayedLog) -> None:
    assert log.look_in_vain(CHECK) == ["unknown", "unknown"]
