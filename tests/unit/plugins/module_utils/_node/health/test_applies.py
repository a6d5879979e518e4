# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM sizes have the hardware that a check measures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import applies
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import find_size
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.types import VmSize


@pytest.mark.parametrize(
    ("name", "several", "infiniband"),
    [
        ("Standard_ND96asr_v4", "", ""),
        ("Standard_ND96is_H100_v5", "", "Standard_ND96is_H100_v5 has no InfiniBand"),
        ("Standard_NC24ads_A100_v4", "Standard_NC24ads_A100_v4 has only one GPU", None),
        ("Standard_ND96isr_MI300X_v5", "Standard_ND96isr_MI300X_v5 has AMD GPUs", ""),
    ],
)
def test_the_reason_names_what_a_size_does_not_have(name: str, several: str, infiniband: str | None) -> None:
    size = find_size(name)
    assert applies.with_several_nvidia_gpus(size) == several
    if infiniband is not None:
        assert applies.with_infiniband(size) == infiniband
        assert applies.with_nvidia_gpus_and_infiniband(size) == (several or infiniband)


def test_all_checks_apply_to_an_unknown_size() -> None:
    assert (
        applies.with_several_nvidia_gpus(None)
        == applies.with_infiniband(None)
        == applies.with_nvidia_gpus_and_infiniband(None)
        == ""
    )


SIZE = find_size("Standard_ND96asr_v4")
assert SIZE is not None


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, ""),
        (replace(SIZE, name="x", nvme_count=1), ""),
        (replace(SIZE, name="x", nvme_count=0), "x has no local disk"),
        (replace(SIZE, name="x", nvme_count=None), "it is not known whether x has local disk"),
    ],
)
def test_where_expected_names_the_reason(size: VmSize | None, words: str) -> None:
    assert applies.where_expected("nvme_count", "local disk")(size) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, ""),
        (replace(SIZE, name="x", nvswitch=True), ""),
        (replace(SIZE, name="x", nvswitch=False), "x has no NVSwitch"),
        (replace(SIZE, name="x", nvswitch=False, gpu_count=0), "x has no GPU"),
        (replace(SIZE, name="x", nvswitch=False, gpu_model="MI300X"), "x has AMD GPUs"),
    ],
)
def test_with_nvswitches_names_the_reason(size: VmSize | None, words: str) -> None:
    assert applies.with_nvswitches(size) == words
