# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units that put NCCL's variables back after the boot, as systemd reads them."""

from __future__ import annotations

import configparser

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps.nccl import STEP
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.conf import BLOCK
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.options import CONF_PATH
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.tools import services, units


@pytest.fixture
def watch() -> configparser.ConfigParser:
    """The path unit."""
    return read(services.NCCL_PATH)


@pytest.fixture
def service() -> configparser.ConfigParser:
    """The service that it starts."""
    return read(services.NCCL_AGAIN)


def read(name: str) -> configparser.ConfigParser:
    """A unit, parsed."""
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(units.UNITS[name])
    return parser


def test_the_file_that_the_images_rewrite_is_watched(watch: configparser.ConfigParser) -> None:
    assert dict(watch["Path"]) == {"PathChanged": CONF_PATH, "Unit": services.NCCL_AGAIN}
    assert services.NCCL_PATH in units.ENABLED[f"{units.TARGET}.wants"]


def test_watching_begins_after_the_step_and_in_no_circle(watch: configparser.ConfigParser) -> None:
    # A path unit comes before basic.target by default, and the step comes after that.
    assert watch["Unit"]["DefaultDependencies"] == "no"
    assert watch["Unit"]["After"].split() == [f"hpcai-{STEP.name}.service"]
    assert watch["Unit"]["Conflicts"] == watch["Unit"]["Before"] == "shutdown.target"


def test_the_step_runs_again_and_can_run_once_more_afterwards(service: configparser.ConfigParser) -> None:
    assert service["Service"]["ExecStart"] == f"/usr/bin/hpcnode boot run {STEP.name}"
    # An active service would not be started again.
    assert "RemainAfterExit" not in service["Service"]
    assert int(service["Service"]["TimeoutStartSec"]) >= STEP.limit_s + units.MARGIN_S + 3


def test_what_changed_while_nobody_watched_is_seen(service: configparser.ConfigParser) -> None:
    afterwards = service["Service"]["ExecStartPost"]
    assert f'grep -qs "{BLOCK}" {CONF_PATH} ||' in afterwards
    assert afterwards.endswith(f"{service['Service']['ExecStart']}'")


def test_a_quarrel_about_the_file_ends(service: configparser.ConfigParser) -> None:
    # Not more often in that time than a burst, and a run and its pause are shorter than the rest of it.
    interval, burst = (int(service["Unit"][key]) for key in ("StartLimitIntervalSec", "StartLimitBurst"))
    assert interval / burst > 3
