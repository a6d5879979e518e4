# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of nodes: from the prolog's environment, slurm.conf and slurmctld; never the placeholder."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.addresses import asked, told
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

CONF = f"""ClusterName=demo
NodeName=gpu-[0-1] NodeAddr=10.0.0.[5-6] CPUs=96
NodeName=gpu-[2-9] NodeAddr={PLACEHOLDER_ADDRESS} State=CLOUD
NodeName=broken-[0 NodeAddr=10.0.0.9
"""


def test_slurm_conf_and_over_it_what_slurmd_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "slurm.conf").write_text(CONF, encoding="utf-8")
    environment = {"SLURM_CONF": "/slurm.conf", "SLURM_NODE_ALIASES": "gpu-1:10.9.9.9:vm-1,gpu-2:[fd00::7]:vm-2"}
    assert told(environment, Root(str(tmp_path))) == {"gpu-0": "10.0.0.5", "gpu-1": "10.9.9.9", "gpu-2": "fd00::7"}


@pytest.mark.parametrize("environment", [{}, {"SLURM_CONF": "slurm.conf"}, {"SLURM_CONF": "/nowhere"}])
def test_without_slurm_conf_nothing_is_known(tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    assert told(environment, Root(str(tmp_path))) == {}


def test_slurmctld_is_asked_once_for_all() -> None:
    calls = []

    def run(words: Sequence[str]) -> Result:
        calls.append(list(words))
        return Result(tuple(words), 0, f"gpu-2 10.0.0.42\ngpu-3 {PLACEHOLDER_ADDRESS}\n", "")

    assert asked(["gpu-2", "gpu-3"], ["10.0.0.4"], run) == {"gpu-2": "10.0.0.42"}
    (words,) = calls
    assert "SLURM_CONF_SERVER=10.0.0.4" in words
    assert "--nodes=gpu-2,gpu-3" in words


def test_a_silent_slurmctld_is_named() -> None:
    with pytest.raises(CommandFailed, match="gave no answer"):
        asked(["gpu-2"], ["10.0.0.4"], lambda words: Result(tuple(words), 124, "", ""))
