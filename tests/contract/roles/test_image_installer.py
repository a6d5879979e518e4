# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tasks of the role image that run a component's installer, with stand-ins for the installer."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
import yaml

from .conftest import LOCAL

TASKS = pathlib.Path(__file__).resolve().parents[3] / "roles/image/tasks/install_component.yml"
NAMES = ("Run the installer", "Explain why the installer failed")


def install(folder: pathlib.Path, installer: str, secure_boot: bool) -> subprocess.CompletedProcess[str]:
    """Run the two tasks with this script as the installer."""
    (folder / "driver.run").write_text(installer, encoding="utf-8")
    chosen = [task for task in yaml.safe_load(TASKS.read_text(encoding="utf-8")) if task["name"] in NAMES]
    assert [task["name"] for task in chosen] == [*NAMES]
    play = {"name": "Run", "hosts": "localhost", "gather_facts": False, "tasks": chosen}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    given = {
        **LOCAL,
        "__image_file": str(folder / "driver.run"),
        "__image_pin": {"name": "NVIDIA driver", "arguments": ["--silent"], "creates": str(folder / "nvidia-smi")},
        "__image_set": {"base": {"secure_boot": secure_boot}},
    }
    return subprocess.run(
        ["ansible-playbook", "-i", "localhost,", str(folder / "play.yml"), "-e", json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


REFUSED = "echo 'ERROR: The kernel module failed to load.' >&2; exit 1\n"


def test_a_driver_that_secure_boot_refuses_is_explained_in_one_error(tmp_path: pathlib.Path) -> None:
    run = install(tmp_path, REFUSED, secure_boot=True)
    assert run.returncode != 0
    assert run.stdout.count("fatal:") == 1
    assert "Turn Secure Boot off" in run.stdout
    assert "The installer reports: ERROR: The kernel module failed to load." in run.stdout


def test_without_secure_boot_the_installers_own_error_is_shown(tmp_path: pathlib.Path) -> None:
    run = install(tmp_path, REFUSED, secure_boot=False)
    assert run.returncode != 0
    assert "The kernel module failed to load." in run.stdout
    assert "Secure Boot" not in run.stdout


@pytest.mark.parametrize("secure_boot", [True, False])
def test_an_installer_that_succeeds_is_not_run_again(tmp_path: pathlib.Path, secure_boot: bool) -> None:
    installer = f"test $1 = --silent && touch {tmp_path}/nvidia-smi\n"
    assert "changed=1" in install(tmp_path, installer, secure_boot).stdout
    assert "changed=0" in install(tmp_path, "exit 1\n", secure_boot).stdout
