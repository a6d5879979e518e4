# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM size that is not known has the verdict unknown, and never passes."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import UNKNOWN
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.checks.vm_size import VM_SIZE

from ..playing import context


def write(folder: pathlib.Path, text: str) -> None:
    """Write the node's settings."""
    file = folder / "etc/hpcai/node.json"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")


def test_passes_if_the_size_is_known() -> None:
    answer = VM_SIZE.measure(context())
    assert answer.findings == ()
    assert [reading.value for reading in answer.readings] == ["Standard_ND96asr_v4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema": 1, "vm_size": "Standard_NX1"}', "VM size 'Standard_NX1' is not known"),
        ("{", "is not valid JSON"),
        ('{"schema": 1, "vm_size": "Standard_ND96asr_v4"}', "run this again"),
    ],
)
def test_fails_to_pass_with_a_size_that_is_not_known(tmp_path: pathlib.Path, text: str, words: str) -> None:
    write(tmp_path, text)
    (finding,) = VM_SIZE.measure(context(tmp_path, size=None)).findings
    assert finding.verdict == UNKNOWN
    assert words in finding.summary
    assert "hpcai_vm_sizes" in finding.hint


def test_cannot_measure_without_a_size(tmp_path: pathlib.Path) -> None:
    (finding,) = VM_SIZE.measure(context(tmp_path, size=None)).findings
    assert finding.verdict == UNKNOWN
    assert "The VM size of this machine is not known" in finding.summary
