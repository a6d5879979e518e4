# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units as systemd reads them, and how they hang together."""

from __future__ import annotations

import configparser
import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import COMMANDS, build_parser
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import files


def read(name: str) -> configparser.ConfigParser:
    """A unit, parsed."""
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(files.UNITS[name])
    return parser


def test_each_unit_bears_the_mark_by_which_it_is_removed() -> None:
    assert all(text.startswith(files.MARK) for text in files.UNITS.values())


def test_links_are_what_systemctl_would_make() -> None:
    wanted = {
        (f"{other}.{kind}", name)
        for name in files.UNITS
        for key, kind in (("WantedBy", "wants"), ("RequiredBy", "requires"))
        for other in read(name)["Install"].get(key, "").split()
    }
    assert {(folder, unit) for folder, units in files.ENABLED.items() for unit in units} == wanted


@pytest.mark.parametrize("name", sorted(files.UNITS))
def test_slurmd_waits_for_each_unit(name: str) -> None:
    assert "slurmd.service" in read(name)["Unit"]["Before"].split()


def test_each_service_has_a_limit_in_seconds_and_runs_once() -> None:
    services = [name for name in files.UNITS if name.endswith(".service")]
    assert services
    for name in services:
        service = read(name)["Service"]
        assert 0 < int(service["TimeoutStartSec"]) <= 300
        assert (service["Type"], service["RemainAfterExit"]) == ("oneshot", "yes")
        assert service["ExecStart"].startswith("/usr/bin/hpcnode ")


@pytest.mark.parametrize("name", ["scratch", "clocks", "nccl"])
def test_a_service_without_settings_is_skipped_and_not_failed(name: str) -> None:
    assert read(f"hpcai-{name}.service")["Unit"]["ConditionPathExists"] == f"/etc/hpcai/{name}.json"


def test_only_scratch_keeps_slurmd_from_starting() -> None:
    assert files.ENABLED["slurmd.service.requires"] == ("hpcai-scratch.service",)


def test_systemd_finds_no_fault(tmp_path: pathlib.Path) -> None:
    program = shutil.which("systemd-analyze")
    if not program:
        pytest.skip("no systemd-analyze here")
    for name, text in files.UNITS.items():
        (tmp_path / name).write_text(text.replace("/usr/bin/hpcnode", "/bin/true"), encoding="utf-8")
    paths = [str(tmp_path / name) for name in files.UNITS]
    done = subprocess.run([program, "verify", *paths], capture_output=True, text=True, timeout=60, check=False)
    ours = [line for line in done.stderr.splitlines() if "hpcai-" in line]
    assert ours == []


def test_units_call_commands_that_exist() -> None:
    parser = build_parser(COMMANDS)
    for name in files.UNITS:
        if name.endswith(".service"):
            program, *words = read(name)["Service"]["ExecStart"].split()
            assert program == "/usr/bin/hpcnode"
            assert parser.parse_args(words).command in COMMANDS
