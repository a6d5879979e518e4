# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for the emulated machine's boot on a host that has other work."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from hardware import vm

BOOTS = """\
#!/bin/sh
echo x >> {calls}
echo the-new-boot
test "$(wc -l < {calls})" -gt 3 || exec sleep 60
echo running
"""
"""An ssh that prints the boot's id at once, but reports a complete boot only on the fourth call.

The first three calls take longer than vm.py waits for a call.
"""


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[vm.Machine]:
    """A running machine. The test installs a fake ssh to reach it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    made = object.__new__(vm.Machine)
    made.ssh_config, made.console, made.boots = tmp_path / "ssh_config", tmp_path / "console", []
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    made._process = process
    yield made
    process.kill()
    process.communicate()


def test_a_slow_boot_does_not_count_as_a_hang_once_ssh_answers(
    machine: vm.Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the machine would be powered off during its boot, and the test of that boot would start again."""
    monkeypatch.setattr(vm, "ASK_S", 0.4)
    monkeypatch.setattr(vm, "ANSWER_TIMEOUT_S", 0.6)
    ssh = tmp_path / "ssh"
    ssh.write_text(BOOTS.format(calls=tmp_path / "calls"), encoding="utf-8")
    ssh.chmod(0o755)
    machine.wait_for_boot("the-old-boot", time.monotonic())
    assert len(machine.boots) == 1
    assert len((tmp_path / "calls").read_text().split()) == 4


def test_a_machine_that_never_answers_counts_as_a_crash(
    machine: vm.Machine, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vm, "ASK_S", 0.2)
    monkeypatch.setattr(vm, "ANSWER_TIMEOUT_S", 0.4)
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    ssh.chmod(0o755)
    with pytest.raises(vm.EmulatorCrashed, match="no answer within"):
        machine.wait_for_boot("the-old-boot", time.monotonic())
