# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which variables a VM size gets, and whether the RDMA plugin goes on its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.conf import SettingsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.files import (
    _LAUNCH_ONLY,
    _OF_SIZE,
    variables,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.plugin import Plugin, find_plugin
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, find_size

ALL = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0"}


def test_hcoll_is_off_by_the_name_that_open_mpi_reads() -> None:
    # The article's OMPI_MCA_COLL_HCOLL_ENABLE is read by nobody.
    for size in SIZES.values():
        found = variables(size, launch_only=True, settings={})
        assert found.get("OMPI_MCA_coll_hcoll_enable") == (None if size.gpu_model == "MI300X" else "0"), size.name
        assert not [name for name in found if name.startswith("OMPI_MCA_") and name[9:] != name[9:].lower()]


def test_a_table_names_known_sizes_only() -> None:
    assert {*_OF_SIZE, *_LAUNCH_ONLY} <= set(SIZES)


@pytest.mark.parametrize(
    ("name", "always", "launch_only"),
    [
        ("nd96asr_v4", {"UCX_IB_PCI_RELAXED_ORDERING": "on"}, {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "eth0"}),
        ("nd96isr_H100_v5", {}, {"UCX_TLS": "rc", "UCX_NET_DEVICES": "mlx5_ib0:1"}),
        ("nd96is_H100_v5", {}, {}),
        ("nd128isr_gb300_v6", {}, {"UCX_TLS": "rc", "UCX_IB_GID_INDEX": "0"}),
        ("nc96ads_a100_v4", {}, {"UCX_TLS": "tcp"}),
        ("nc40ads_h100_v5", {}, {}),
    ],
)
def test_each_size_gets_what_its_sources_state(name: str, always: dict[str, str], launch_only: dict[str, str]) -> None:
    size = find_size(name)
    assert variables(size, False, {}) == {**ALL, **always}
    assert variables(size, True, {}) == {**ALL, **always, **launch_only}


def test_a_size_described_by_hand_gets_what_all_get() -> None:
    size = find_size("mine", {"mine": {"vcpus": 4, "memory_mib": 2048, "gpu_count": 1}})
    assert variables(size, True, {}) == ALL


def test_settings_come_on_top_and_null_takes_out() -> None:
    given = {"CUDA_DEVICE_ORDER": None, "UCX_TLS": "rc", "FLAG": True, "NUMBER": 4, "OMPI_MCA_coll_hcoll_enable": "1"}
    assert variables(find_size("nd96isr_h200_v5"), False, given) == {
        "FLAG": "1",
        "NUMBER": "4",
        "OMPI_MCA_coll_hcoll_enable": "1",
        "UCX_TLS": "rc",
    }


@pytest.mark.parametrize("given", [{"A B": 1}, {"A": "x\ny"}, {"A": ["x"]}, {"1A": "x"}])
def test_refuses_what_no_file_could_hold(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings"):
        variables(find_size("nd96asr_v4"), False, given)


IMAGE = "/usr/local/nccl-rdma-sharp-plugins/lib"
HPCX = "/opt/hpcx-v{}-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64"


def put(tree: Path, *paths: str) -> None:
    """Files of a machine."""
    for path in paths:
        file = tree / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def look(
    tree: Path, size: str = "nd96asr_v4", wanted: bool = True, cache: dict[str, str] | None = None, folder: str = ""
) -> Plugin:
    """What is found."""
    found = find_size(size, {"mine": {"vcpus": 4, "memory_mib": 2048}})
    return find_plugin(Root(str(tree)), found, wanted, cache or {}, [folder] if folder else [])


def test_the_images_own_plugin_comes_before_hpcx(tmp_path: Path) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so", f"{HPCX.format('2.18')}/nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    found = look(tmp_path)
    assert (found.folders, found.reason) == ((IMAGE,), "")
    assert found.found == (IMAGE, f"{HPCX.format('2.18')}/nccl_rdma_sharp_plugin/lib")


def test_the_newest_hpcx_is_taken_with_its_own_sharp(tmp_path: Path) -> None:
    for version in ("2.9", "2.18", "2.25.1"):
        prefix = HPCX.format(version)
        put(tmp_path, f"{prefix}/nccl_rdma_sharp_plugin/lib/libnccl-net.so", f"{prefix}/sharp/lib/libsharp_coll.so.5")
    put(tmp_path, "/opt/mellanox/sharp/lib/libsharp_coll.so.5")
    prefix = HPCX.format("2.25.1")
    assert look(tmp_path).folders == (f"{prefix}/nccl_rdma_sharp_plugin/lib", f"{prefix}/sharp/lib")


def test_a_folder_of_the_users_comes_first(tmp_path: Path) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so", "/srv/p/lib/libnccl-net.so", "/opt/mellanox/sharp/lib/libsharp_coll.so")
    assert look(tmp_path, folder="/srv/*/lib").folders == ("/srv/p/lib", "/opt/mellanox/sharp/lib")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": "nd96is_h100_v5"}, "has no InfiniBand"),
        ({"size": "mine"}, "has no InfiniBand"),
        ({"wanted": False}, "not asked for"),
        ({"cache": {"libnccl-net.so": "/usr/lib64/libnccl-net.so"}}, "by itself"),
    ],
)
def test_leaves_the_path_alone_and_says_why(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so")
    found = look(tmp_path, **options)
    assert found.folders == ()
    assert reason in found.reason
    assert found.found == (IMAGE,)


def test_says_so_where_there_is_none(tmp_path: Path) -> None:
    assert look(tmp_path).reason == "none is installed"


def test_says_of_which_size_microsoft_denies_sharp(tmp_path: Path) -> None:
    assert look(tmp_path).sharp is False
    assert look(tmp_path, size="nd96isr_h100_v5").sharp is None
