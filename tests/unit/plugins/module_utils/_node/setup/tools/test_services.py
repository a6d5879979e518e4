# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services in addition to the boot's steps."""

from __future__ import annotations

import configparser
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.nccl import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks import failures, options
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.conf import BLOCK
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.options import CONF_PATH
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, services, units
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools.payload import ToolsError

PROLOG = f"{services.LIBEXEC}/prolog"


def below(folder: pathlib.Path, text: str) -> str:
    """The program with its paths below a folder, and with echo in the place of hpcnode."""
    text = text.replace("/usr/bin/hpcnode", f"echo PATH=$PATH {folder}").replace("exec echo", "echo")
    return text.replace("/etc/hpcai", f"{folder}/etc/hpcai").replace("/run/hpcai", f"{folder}/run/hpcai")


def call(folder: pathlib.Path) -> str:
    """Call the prolog as slurmd does, without a PATH, and return what it printed."""
    command = ["/bin/sh", "-c", below(folder, services.HOOKS[PROLOG])]
    done = subprocess.run(command, env={}, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0
    return done.stdout


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A node without scripts."""
    for kind in options.KINDS:
        (tmp_path / options.folder(kind).lstrip("/")).mkdir(parents=True)
    (tmp_path / failures.FOLDER.lstrip("/")).mkdir(parents=True)
    return tmp_path


def test_each_kind_of_script_has_its_program_and_folder() -> None:
    assert list(services.HOOKS) == [f"{services.LIBEXEC}/{kind}" for kind in options.KINDS]
    assert set(services.HOOK_FOLDERS) == {services.LIBEXEC, *(options.folder(kind) for kind in options.KINDS)}
    for kind, text in zip(options.KINDS, services.HOOKS.values(), strict=True):
        assert text.startswith(f"#!/bin/sh\n{layout.MARK}\n")
        assert text.endswith(f"exec /usr/bin/hpcnode job run {kind}\n")


def test_without_scripts_no_python_is_started(folder: pathlib.Path) -> None:
    assert call(folder) == ""


@pytest.mark.parametrize("name", ["50-gpu", "README"])
def test_any_entry_in_the_folder_calls_hpcnode_with_a_complete_path(folder: pathlib.Path, name: str) -> None:
    (folder / "etc/hpcai/prolog.d" / name).write_text("", encoding="utf-8")
    output = call(folder)
    assert output.endswith("job run prolog\n")
    assert output.startswith("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ")


def test_a_dangling_link_counts_as_an_entry(folder: pathlib.Path) -> None:
    (folder / "etc/hpcai/prolog.d/50-gpu").symlink_to("/no/such/file")
    assert call(folder).endswith("job run prolog\n")


def test_after_a_failure_a_run_without_scripts_calls_hpcnode(folder: pathlib.Path) -> None:
    (folder / failures.FOLDER.lstrip("/") / "prolog.json").write_text("{}", encoding="utf-8")
    assert call(folder).endswith("job run prolog\n")


def test_the_programs_are_installed_and_removed_with_the_tool(machine: Any) -> None:
    machine.install("1.0")
    program = machine.path(PROLOG)
    assert program.read_text(encoding="utf-8") == services.HOOKS[PROLOG]
    assert program.stat().st_mode & 0o7777 == 0o755
    assert machine.path("/etc/hpcai/health.d").is_dir()
    program.chmod(0o644)
    assert machine.plan("1.0").restored == (PROLOG,)
    script = machine.path("/etc/hpcai/prolog.d/50-own")
    script.write_text("mine", encoding="utf-8")
    machine.remove()
    assert not machine.path(services.LIBEXEC).exists()
    assert script.read_text(encoding="utf-8") == "mine"


def test_the_report_unit_watches_the_records_and_has_time_for_all() -> None:
    assert f"PathExistsGlob={failures.TO_REPORT}/*.json" in units.UNITS[services.HOOK_REPORT_PATH].splitlines()
    [limit] = [line for line in units.UNITS[services.HOOK_REPORT].splitlines() if line.startswith("TimeoutStartSec=")]
    assert int(limit.partition("=")[2]) > len(options.SLURMS_REASONS) * (failures.LIMIT_S + 15)
    assert services.HOOK_REPORT_PATH in units.ENABLED["slurmd.service.wants"]


# The units that restore NCCL's variables after the boot, as systemd reads them.


@pytest.fixture
def watch() -> configparser.ConfigParser:
    """The path unit."""
    return read(services.NCCL_PATH)


@pytest.fixture
def service() -> configparser.ConfigParser:
    """The service that it starts."""
    return read(services.NCCL_AGAIN)


def read(name: str) -> configparser.ConfigParser:
    """Parse a unit."""
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(units.UNITS[name])
    return parser


def test_the_file_that_the_images_rewrite_is_watched(watch: configparser.ConfigParser) -> None:
    assert dict(watch["Path"]) == {"PathChanged": CONF_PATH, "Unit": services.NCCL_AGAIN}
    assert services.NCCL_PATH in units.ENABLED[f"{units.TARGET}.wants"]


def test_watching_begins_after_the_step_without_a_dependency_cycle(watch: configparser.ConfigParser) -> None:
    # A path unit comes before basic.target by default, and the step comes after that.
    assert watch["Unit"]["DefaultDependencies"] == "no"
    assert watch["Unit"]["After"].split() == [f"hpcai-{STEP.name}.service"]
    assert watch["Unit"]["Conflicts"] == watch["Unit"]["Before"] == "shutdown.target"


def test_the_step_runs_again_and_can_run_once_more_afterwards(service: configparser.ConfigParser) -> None:
    assert service["Service"]["ExecStart"] == f"/usr/bin/hpcnode boot run {STEP.name}"
    # An active service would not be started again.
    assert "RemainAfterExit" not in service["Service"]
    assert int(service["Service"]["TimeoutStartSec"]) >= STEP.limit_s + units.MARGIN_S + 3


def test_changes_that_were_not_watched_are_noticed(service: configparser.ConfigParser) -> None:
    afterwards = service["Service"]["ExecStartPost"]
    assert f'grep -qs "{BLOCK}" {CONF_PATH} ||' in afterwards
    assert afterwards.endswith(f"{service['Service']['ExecStart']}'")


def test_a_conflict_with_another_writer_of_the_file_ends(service: configparser.ConfigParser) -> None:
    # At most one burst of runs per interval, and a run with its pause is shorter than the rest of it.
    interval, burst = (int(service["Unit"][key]) for key in ("StartLimitIntervalSec", "StartLimitBurst"))
    assert interval / burst > 3


# The rule and the unit that configure the GPUs when their driver is loaded again. The emulated machine tests both.

[(PATH, RULE)] = services.UDEV_RULES.items()


def line_of(text: str, key: str) -> str:
    """The value of a key in a unit."""
    [found] = re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def test_the_rule_starts_an_installed_unit_when_the_module_is_loaded() -> None:
    [rule] = [line for line in RULE.splitlines() if not line.startswith("#")]
    conditions = rule.split(", ")
    assert conditions[:3] == ['ACTION=="add"', 'SUBSYSTEM=="module"', 'KERNEL=="nvidia"']
    assert conditions[3:] == ['TAG+="systemd"', f'ENV{{SYSTEMD_WANTS}}+="{services.DRIVER_LOADED}"']
    assert services.DRIVER_LOADED in units.UNITS


def test_the_unit_runs_the_steps_in_their_order_with_time_for_both() -> None:
    text = units.UNITS[services.DRIVER_LOADED]
    *command, first, second = line_of(text, "ExecStart").split()
    assert command == ["/usr/bin/hpcnode", "boot", "run"]
    steps = catalog.select_steps([first, second])
    assert [step.name for step in steps] == ["gpu", "clocks"]
    assert int(line_of(text, "TimeoutStartSec")) >= sum(step.limit_s for step in steps) + units.MARGIN_S


def test_the_unit_is_not_part_of_the_boot_and_can_run_repeatedly() -> None:
    text = units.UNITS[services.DRIVER_LOADED]
    assert line_of(text, "After") == units.TARGET
    # Otherwise it would run only once, or at each boot.
    assert "RemainAfterExit" not in text
    assert "[Install]" not in text
    assert services.DRIVER_LOADED not in [name for names in units.ENABLED.values() for name in names]


def test_the_rule_is_installed_and_removed_with_the_tool(machine: Any) -> None:
    machine.install("1.0")
    assert machine.path(PATH).read_text(encoding="utf-8") == RULE
    assert not machine.plan("1.0").changed
    machine.path(PATH).write_text(f"{layout.MARK}\n# edited\n", encoding="utf-8")
    assert machine.install("1.0").restored == (PATH,)
    machine.remove()
    assert not machine.path(PATH).exists()


def test_a_rule_of_another_version_is_removed_and_foreign_rules_kept(machine: Any) -> None:
    folder = machine.path(services.UDEV_FOLDER)
    folder.mkdir(parents=True)
    (folder / "70-hpcai-old.rules").write_text(f"{layout.MARK}\n", encoding="utf-8")
    (folder / "70-hpcai-site.rules").write_text("# theirs\n", encoding="utf-8")
    machine.install("1.0")
    assert sorted(path.name for path in folder.iterdir()) == ["70-hpcai-site.rules", pathlib.Path(PATH).name]


def test_a_foreign_rule_is_not_overwritten(machine: Any) -> None:
    machine.path(PATH).parent.mkdir(parents=True)
    machine.path(PATH).write_text("# theirs\n", encoding="utf-8")
    with pytest.raises(ToolsError, match=f"{PATH} was not made by this module"):
        machine.install("1.0")


def test_udevadm_verify_accepts_the_rule(tmp_path: pathlib.Path) -> None:
    program = shutil.which("udevadm")
    if not program or subprocess.run([program, "verify", "--help"], capture_output=True, check=False).returncode:
        pytest.skip("no udevadm that verifies rules here: it came with systemd 254")
    file = tmp_path / "90-hpcai-gpu.rules"
    file.write_text(RULE, encoding="utf-8")
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
