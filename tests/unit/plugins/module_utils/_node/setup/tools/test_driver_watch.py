# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule and the unit that look after the GPUs when their driver is loaded again. The emulated machine tries both."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, services, units
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

[(PATH, RULE)] = services.UDEV_RULES.items()


def line_of(text: str, key: str) -> str:
    """What stands under a key of a unit."""
    [found] = re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def test_the_rule_wants_the_unit_that_is_installed_when_the_module_comes() -> None:
    [rule] = [line for line in RULE.splitlines() if not line.startswith("#")]
    parts = rule.split(", ")
    assert parts[:3] == ['ACTION=="add"', 'SUBSYSTEM=="module"', 'KERNEL=="nvidia"']
    assert parts[3:] == ['TAG+="systemd"', f'ENV{{SYSTEMD_WANTS}}+="{services.DRIVER_LOADED}"']
    assert services.DRIVER_LOADED in units.UNITS


def test_the_unit_runs_the_steps_in_their_order_with_time_for_both() -> None:
    text = units.UNITS[services.DRIVER_LOADED]
    *command, first, second = line_of(text, "ExecStart").split()
    assert command == ["/usr/bin/hpcnode", "boot", "run"]
    steps = catalog.chosen([first, second])
    assert [step.name for step in steps] == ["gpu", "clocks"]
    assert int(line_of(text, "TimeoutStartSec")) >= sum(step.limit_s for step in steps) + units.MARGIN_S


def test_the_unit_leaves_the_boot_alone_and_runs_each_time_anew() -> None:
    text = units.UNITS[services.DRIVER_LOADED]
    assert line_of(text, "After") == units.TARGET
    # With either it would run once and never again, or at each boot by itself.
    assert "RemainAfterExit" not in text
    assert "[Install]" not in text
    assert services.DRIVER_LOADED not in [name for names in units.ENABLED.values() for name in names]


def test_the_rule_comes_and_goes_with_the_tool(machine: Any) -> None:
    machine.install("1.0")
    assert machine.path(PATH).read_text(encoding="utf-8") == RULE
    assert not machine.plan("1.0").changed
    machine.path(PATH).write_text(f"{layout.MARK}\n# edited\n", encoding="utf-8")
    assert machine.install("1.0").restored == (PATH,)
    machine.remove()
    assert not machine.path(PATH).exists()


def test_a_rule_of_another_version_goes_and_those_of_others_stay(machine: Any) -> None:
    folder = machine.path(services.UDEV_FOLDER)
    folder.mkdir(parents=True)
    (folder / "70-hpcai-old.rules").write_text(f"{layout.MARK}\n", encoding="utf-8")
    (folder / "70-hpcai-site.rules").write_text("# theirs\n", encoding="utf-8")
    machine.install("1.0")
    assert sorted(path.name for path in folder.iterdir()) == ["70-hpcai-site.rules", pathlib.Path(PATH).name]


def test_refuses_to_overwrite_a_rule_that_is_not_ours(machine: Any) -> None:
    machine.path(PATH).parent.mkdir(parents=True)
    machine.path(PATH).write_text("# theirs\n", encoding="utf-8")
    with pytest.raises(ToolsError, match=f"{PATH} was not made by this module"):
        machine.install("1.0")


def test_udev_finds_no_fault_in_the_rule(tmp_path: pathlib.Path) -> None:
    program = shutil.which("udevadm")
    if not program or subprocess.run([program, "verify", "--help"], capture_output=True, check=False).returncode:
        pytest.skip("no udevadm that verifies rules here: it came with systemd 254")
    file = tmp_path / "90-hpcai-gpu.rules"
    file.write_text(RULE, encoding="utf-8")
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
