# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of jobs with NCCL: which files are written and removed, and which options are saved for a boot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.ensure import ensure
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.options import (
    EnvironmentOptions,
    options_of,
)

MPI = "etc/openmpi/openmpi-mca-params.conf"
CONFIG = "etc/hpcai/nccl_environment.json"


class Node:
    """The files of an ND A100 v4 with Open MPI and without NCCL."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / MPI).parent.mkdir(parents=True)
        (path / MPI).write_text("# theirs\n")

    def ensure(self, **options: Any) -> dict[str, Any]:
        """Bring the files to the state in the options."""
        return ensure(Root(str(self.path)), self._run, EnvironmentOptions(**{"vm_size": "nd96asr_v4", **options}))

    def files(self) -> dict[str, str]:
        """All files, with their contents."""
        return {str(file.relative_to(self.path)): file.read_text() for file in self.path.rglob("*") if file.is_file()}

    @staticmethod
    def _run(command: Sequence[str]) -> Result:
        return Result(tuple(command), 1, "", "")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node without any of our files."""
    return Node(tmp_path)


def test_absent_removes_everything_and_is_saved_for_the_next_boot(node: Node) -> None:
    before = node.files()
    node.ensure()
    answer = node.ensure(state="absent", vm_size=None)
    assert (answer["changed"], answer["vm_size"], answer["nccl"]) == (True, None, None)
    # Without this file, the next boot would write everything again.
    assert json.loads(node.files()[CONFIG]) == {"schema": 1, "state": "absent"}
    assert node.ensure(state="absent")["changed"] is False
    assert node.ensure(state="absent", persistent=False)["changed"] is True
    assert node.files() == before


@pytest.mark.parametrize("options", [{"mpi_files": False}, {"settings": {"OMPI_MCA_coll_hcoll_enable": None}}])
def test_blocks_that_are_no_longer_requested_are_removed(node: Node, options: dict[str, Any]) -> None:
    node.ensure()
    assert node.files()[MPI] != "# theirs\n"
    assert node.ensure(**options)["changed"] is True
    assert node.files()[MPI] == "# theirs\n"


def test_a_missing_nccl_is_a_warning_even_with_when_old_fail(node: Node) -> None:
    answer = node.ensure(when_old="fail")
    assert (answer["nccl"]["verdict"], answer["warnings"]) == ("unknown", [answer["nccl"]["summary"]])


def test_an_image_gets_only_the_options_with_the_same_bytes_as_a_node(node: Node) -> None:
    before = node.files()
    given: dict[str, Any] = {"settings": {"UCX_TLS": "rc", "FLAG": True}, "min_version": "2.18.5", "vm_size": None}
    # Neither the VM size nor NCCL is looked up.
    answer = node.ensure(apply=False, **given)
    assert (answer["changed"], answer["vm_size"], answer["nccl"]) == (True, None, None)
    assert set(node.files()) - set(before) == {CONFIG}
    baked = node.files()[CONFIG]
    kept = json.loads(baked)
    assert (kept.pop("schema"), options_of(kept)) == (1, EnvironmentOptions(**given))
    assert (node.path / CONFIG).stat().st_mode & 0o7777 == 0o644
    (node.path / "etc/hpcai/node.json").write_text('{"schema": 1, "vm_size": "nd96asr_v4"}')
    assert node.ensure(**given)["vm_size_from"] == "node.json"
    assert node.files()[CONFIG] == baked


def test_without_persistent_the_saved_options_are_removed(node: Node) -> None:
    node.ensure()
    assert node.ensure(persistent=False)["changed"] is True
    assert CONFIG not in node.files()
