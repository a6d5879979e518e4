# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Blocks in the system files of Open MPI and UCX."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_block import BrokenBlock
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import apply_all
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.files import mpi_files

VARIABLES = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0", "UCX_TLS": "tcp"}
BEGIN, END = "# BEGIN hpcai.azure nccl_environment\n", "# END hpcai.azure nccl_environment\n"
MCA = f"{BEGIN}coll_hcoll_enable = 0\n{END}"
UCX = f"{BEGIN}UCX_TLS=tcp\n{END}"


class Machine:
    """A tree with installations of MPI."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def bring(self, variables: dict[str, str]) -> list[str]:
        """Write, and return what was changed."""
        changes = mpi_files(Root(str(self.path)), variables)
        apply_all(changes)
        return [change.path[len(str(self.path)) :] for change in changes if change.changes]

    def text(self, path: str) -> str | None:
        """What a file holds."""
        file = self.path / path
        return file.read_text() if file.exists() else None


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Open MPI of the distribution and of the HPC images, HPC-X, and UCX of the distribution."""
    for folder in ("etc/openmpi", "opt/openmpi-5.0.8/etc", "opt/hpcx-v2.25/ompi/etc", "opt/hpcx-v2.25/ucx/etc/ucx"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt/hpcx").symlink_to("hpcx-v2.25")
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "usr/lib/x86_64-linux-gnu/libucs.so.0").touch()
    (tmp_path / "etc/openmpi/openmpi-mca-params.conf").write_text("# theirs\nbtl = self\n")
    return Machine(tmp_path)


def test_each_installation_gets_its_own_variables_once(machine: Machine) -> None:
    assert machine.bring(VARIABLES) == [
        "/etc/openmpi/openmpi-mca-params.conf",
        "/opt/openmpi-5.0.8/etc/openmpi-mca-params.conf",
        "/opt/hpcx-v2.25/ompi/etc/openmpi-mca-params.conf",
        "/etc/ucx/ucx.conf",
        "/opt/hpcx-v2.25/ucx/etc/ucx/ucx.conf",
    ]
    assert machine.text("opt/hpcx-v2.25/ompi/etc/openmpi-mca-params.conf") == MCA
    assert machine.text("opt/hpcx-v2.25/ucx/etc/ucx/ucx.conf") == machine.text("etc/ucx/ucx.conf") == UCX
    assert machine.bring(VARIABLES) == []


def test_a_sites_own_lines_stay_behind_the_block(machine: Machine) -> None:
    # The last line for a name wins there.
    machine.bring(VARIABLES)
    assert machine.text("etc/openmpi/openmpi-mca-params.conf") == f"{MCA}# theirs\nbtl = self\n"


def test_takes_everything_back(machine: Machine) -> None:
    machine.bring(VARIABLES)
    assert len(machine.bring({})) == 5
    assert machine.text("etc/openmpi/openmpi-mca-params.conf") == "# theirs\nbtl = self\n"
    assert machine.text("etc/ucx/ucx.conf") is None
    assert machine.bring({}) == []


def test_makes_no_file_where_nothing_is_installed(tmp_path: Path) -> None:
    assert Machine(tmp_path).bring(VARIABLES) == []


def test_an_empty_file_of_theirs_stays(machine: Machine) -> None:
    file = machine.path / "etc/openmpi/openmpi-mca-params.conf"
    file.write_text("")
    assert machine.bring({}) == []
    assert file.exists()


def test_half_a_block_is_refused_with_the_files_name(machine: Machine) -> None:
    file = machine.path / "etc/openmpi/openmpi-mca-params.conf"
    file.write_text(BEGIN)
    with pytest.raises(BrokenBlock, match=str(file)):
        machine.bring(VARIABLES)
    assert machine.text("etc/ucx/ucx.conf") is None
