# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units as systemd reads them, their dependencies, and that they match the steps."""

from __future__ import annotations

import configparser
import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import all_commands, build_parser
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import layout, services, units

STEPS = [step for step in catalog.all_steps() if step.name not in catalog.WITHOUT_UNIT]
SERVICES = [name for name in units.UNITS if name.endswith(".service")]
BOOT_SERVICES = [row.unit for row in units.BOOT_UNITS]


def read(name: str) -> configparser.ConfigParser:
    """Parse a unit."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(units.UNITS[name])
    return parser


def words(name: str, key: str) -> list[str]:
    """The words of a key in a unit's section [Unit]."""
    return read(name)["Unit"].get(key, "").split()


def test_each_unit_has_the_mark_that_allows_its_removal() -> None:
    assert all(text.startswith(layout.MARK) for text in units.UNITS.values())


def test_each_step_has_its_unit_and_each_unit_its_step() -> None:
    assert [row.name for row in units.BOOT_UNITS] == [step.name for step in STEPS]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_the_settings_of_a_unit_match_its_step(step: catalog.Step) -> None:
    unit = read(f"hpcai-{step.name}.service")
    assert unit["Unit"]["Description"] == step.title
    assert int(unit["Service"]["TimeoutStartSec"]) == step.limit_s + units.MARGIN_S
    assert int(unit["Service"]["TimeoutStopSec"]) == units.STOP_S
    assert unit["Service"]["ExecStart"] == f"/usr/bin/hpcnode boot run {step.name}"
    assert (unit["Install"].get("RequiredBy") == "slurmd.service") is step.blocking
    assert (unit["Unit"].get("OnFailure") == "hpcai-report.service") is step.blocking


def test_the_links_are_those_that_systemctl_would_create() -> None:
    expected = {
        (f"{other}.{kind}", name)
        for name in units.UNITS
        if "Install" in read(name)
        for key, kind in (("WantedBy", "wants"), ("RequiredBy", "requires"))
        for other in read(name)["Install"].get(key, "").split()
    }
    assert {(folder, name) for folder, names in units.ENABLED.items() for name in names} == expected


@pytest.mark.parametrize("name", [units.TARGET, *BOOT_SERVICES])
def test_slurmd_waits_for_each_unit(name: str) -> None:
    assert "slurmd.service" in words(name, "Before")


@pytest.mark.parametrize("name", BOOT_SERVICES)
def test_the_target_wants_each_service(name: str) -> None:
    assert name in units.ENABLED[f"{units.TARGET}.wants"]


@pytest.mark.parametrize("number", range(len(BOOT_SERVICES)))
def test_steps_follow_each_other_in_the_order_of_the_boot(number: int) -> None:
    ours = [other for other in words(BOOT_SERVICES[number], "After") if other.startswith("hpcai-")]
    assert ours == BOOT_SERVICES[:number]


@pytest.mark.parametrize(
    ("name", "key", "others"),
    [
        ("instance", "After", {"network-online.target"}),
        ("instance", "Wants", {"network-online.target"}),
        ("key", "Before", {"munge.service"}),
        ("gpu", "After", {"nvidia-persistenced.service", "nvidia-fabricmanager.service", "sku-customizations.service"}),
        ("clocks", "After", {"nvidia-persistenced.service", "nvidia-fabricmanager.service"}),
        # That service renames the InfiniBand devices.
        ("fabric", "After", {"azure_persistent_rdma_naming.service"}),
        ("health", "After", {"azure_persistent_rdma_naming.service"}),
        ("scratch", "After", {"local-fs.target", "systemd-udev-trigger.service"}),
        ("scratch", "RequiresMountsFor", {"/var/lib/hpcai"}),
        # That service rewrites /etc/nccl.conf at each boot.
        ("nccl", "After", {"sku-customizations.service"}),
    ],
)
def test_a_step_comes_after_what_it_needs_and_before_what_needs_it(name: str, key: str, others: set[str]) -> None:
    if name not in [row.name for row in units.BOOT_UNITS]:
        pytest.skip(f"there is no step {name} yet")
    assert others <= set(words(f"hpcai-{name}.service", key))


def test_no_unit_requires_a_unit_that_a_machine_may_lack() -> None:
    for name in units.UNITS:
        assert not {"Requires", "BindsTo", "Requisite", "PartOf"} & set(read(name)["Unit"])


@pytest.mark.parametrize("name", [name for name in SERVICES if name != services.EVENTS])
def test_each_service_has_a_limit_in_seconds_and_runs_once(name: str) -> None:
    service = read(name)["Service"]
    assert 0 < int(service["TimeoutStartSec"]) <= 600
    assert service.get("Type") == ("oneshot" if name != services.GRANTS else None)
    assert (service.get("RemainAfterExit") == "yes") is (name in BOOT_SERVICES)
    assert service["ExecStart"].startswith("/usr/bin/hpcnode ")


def test_the_events_service_is_always_restarted() -> None:
    service = read(services.EVENTS)["Service"]
    assert (service["Restart"], service["ExecStart"]) == ("always", "/usr/bin/hpcnode events serve")
    assert services.EVENTS in units.ENABLED["slurmd.service.wants"]


def test_systemd_analyze_verify_accepts_the_units(tmp_path: pathlib.Path) -> None:
    program = shutil.which("systemd-analyze")
    if not program:
        pytest.skip("no systemd-analyze here")
    for name, text in units.UNITS.items():
        (tmp_path / name).write_text(text.replace("/usr/bin/hpcnode", "/bin/true"), encoding="utf-8")
    paths = [str(tmp_path / name) for name in units.UNITS]
    done = subprocess.run([program, "verify", *paths], capture_output=True, text=True, timeout=60, check=False)
    ours = [line for line in done.stderr.splitlines() if "hpcai-" in line]
    assert ours == []


def test_units_call_commands_that_exist() -> None:
    commands = all_commands()
    parser = build_parser(commands)
    for name in SERVICES:
        program, *arguments = read(name)["Service"]["ExecStart"].split()
        assert program == "/usr/bin/hpcnode"
        assert parser.parse_args(arguments).command in commands
