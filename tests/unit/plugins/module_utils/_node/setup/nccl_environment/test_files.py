# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables around NCCL, and the files of login shells, Open MPI and UCX."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.managed_file import BrokenBlock, apply_all
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl.conf import SettingsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.files import (
    _LAUNCH_ONLY,
    _OF_SIZE,
    mpi_files,
    profile_text,
    variables,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.library import (
    NetPlugin,
    find_plugin,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import SIZES, find_size

ALL = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0"}


def test_hcoll_is_off_by_the_name_that_open_mpi_reads() -> None:
    # The name in the article, OMPI_MCA_COLL_HCOLL_ENABLE, has no effect.
    for size in SIZES.values():
        found = variables(size, launch_only=True, settings={})
        assert found.get("OMPI_MCA_coll_hcoll_enable") == (None if size.gpu_model == "MI300X" else "0"), size.name
        assert not [name for name in found if name.startswith("OMPI_MCA_") and name[9:] != name[9:].lower()]


def test_the_tables_contain_known_sizes_only() -> None:
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


def test_a_described_size_gets_only_the_common_variables() -> None:
    size = find_size("mine", {"mine": {"vcpus": 4, "memory_mib": 2048, "gpu_count": 1}})
    assert variables(size, True, {}) == ALL


def test_settings_override_variables_and_null_removes_them() -> None:
    given = {"CUDA_DEVICE_ORDER": None, "UCX_TLS": "rc", "FLAG": True, "NUMBER": 4, "OMPI_MCA_coll_hcoll_enable": "1"}
    assert variables(find_size("nd96isr_h200_v5"), False, given) == {
        "FLAG": "1",
        "NUMBER": "4",
        "OMPI_MCA_coll_hcoll_enable": "1",
        "UCX_TLS": "rc",
    }


@pytest.mark.parametrize("given", [{"A B": 1}, {"A": "x\ny"}, {"A": ["x"]}, {"1A": "x"}])
def test_variables_that_no_file_can_contain_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="settings"):
        variables(find_size("nd96asr_v4"), False, given)


IMAGE = "/usr/local/nccl-rdma-sharp-plugins/lib"
HPCX = "/opt/hpcx-v{}-gcc-doca_ofed-ubuntu22.04-cuda12-x86_64"


def put(tree: Path, *paths: str) -> None:
    """Create files of a machine."""
    for path in paths:
        file = tree / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def look(
    tree: Path, size: str = "nd96asr_v4", enabled: bool = True, cache: dict[str, str] | None = None, folder: str = ""
) -> NetPlugin:
    """Search for the plugin."""
    found = find_size(size, {"mine": {"vcpus": 4, "memory_mib": 2048}})
    return find_plugin(Root(str(tree)), found, enabled, cache or {}, [folder] if folder else [])


def test_the_images_own_plugin_comes_before_hpcx(tmp_path: Path) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so", f"{HPCX.format('2.18')}/nccl_rdma_sharp_plugin/lib/libnccl-net.so")
    found = look(tmp_path)
    assert (found.folders, found.reason) == ((IMAGE,), "")
    assert found.found == (IMAGE, f"{HPCX.format('2.18')}/nccl_rdma_sharp_plugin/lib")


def test_the_newest_hpcx_is_used_with_its_own_sharp(tmp_path: Path) -> None:
    for version in ("2.9", "2.18", "2.25.1"):
        prefix = HPCX.format(version)
        put(tmp_path, f"{prefix}/nccl_rdma_sharp_plugin/lib/libnccl-net.so", f"{prefix}/sharp/lib/libsharp_coll.so.5")
    put(tmp_path, "/opt/mellanox/sharp/lib/libsharp_coll.so.5")
    prefix = HPCX.format("2.25.1")
    assert look(tmp_path).folders == (f"{prefix}/nccl_rdma_sharp_plugin/lib", f"{prefix}/sharp/lib")


def test_a_folder_of_the_user_comes_first(tmp_path: Path) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so", "/srv/p/lib/libnccl-net.so", "/opt/mellanox/sharp/lib/libsharp_coll.so")
    assert look(tmp_path, folder="/srv/*/lib").folders == ("/srv/p/lib", "/opt/mellanox/sharp/lib")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": "nd96is_h100_v5"}, "has no InfiniBand"),
        ({"size": "mine"}, "has no InfiniBand"),
        ({"enabled": False}, "disabled in the options"),
        ({"cache": {"libnccl-net.so": "/usr/lib64/libnccl-net.so"}}, "the loader already finds"),
    ],
)
def test_the_path_is_left_alone_with_a_reason(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    put(tmp_path, f"{IMAGE}/libnccl-net.so")
    found = look(tmp_path, **options)
    assert found.folders == ()
    assert reason in found.reason
    assert found.found == (IMAGE,)


def test_a_missing_plugin_is_reported(tmp_path: Path) -> None:
    assert look(tmp_path).reason == "no plugin is installed"


def test_sizes_without_sharp_are_reported(tmp_path: Path) -> None:
    assert look(tmp_path).sharp is False
    assert look(tmp_path, size="nd96isr_h100_v5").sharp is None


# The drop-in of login shells, read by real shells.

NASTY = "a 'b' \"c\" $HOME `id` \\ } ; # é"
IN_PROFILE = {"OMPI_MCA_coll_hcoll_enable": "0", "NASTY": NASTY, "EMPTY": ""}
FOLDERS = ["/usr/local/nccl-rdma-sharp-plugins/lib", "/opt/a b/lib"]

SHELLS = [["dash", "-eu"], ["bash", "-eu"], ["bash", "--posix", "-eu"], ["zsh", "-eu"], ["ksh", "-eu"]]


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """An installed shell; dash and bash must be installed."""
    name, *options = request.param
    program = shutil.which(name)
    if program is None:
        assert name not in ("dash", "bash")
        pytest.skip(f"no {name}")
    return [program, *options]


@pytest.fixture
def drop_in(tmp_path: Path) -> Path:
    """The drop-in file."""
    text = profile_text(IN_PROFILE, FOLDERS)
    assert text
    file = tmp_path / "hpcai-nccl.sh"
    file.write_text(text, encoding="utf-8")
    return file


def sourced(
    shell: list[str], file: Path, environment: Mapping[str, str], times: int = 1, before: str = ""
) -> dict[str, str]:
    """The environment of a program that is started after the file was sourced."""
    script = before + f". {file}\n" * times + "exec env -0\n"
    done = subprocess.run(
        [*shell, "-c", script],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stderr == ""
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


def test_unset_variables_are_set(shell: list[str], drop_in: Path) -> None:
    found = sourced(shell, drop_in, {})
    assert {name: found[name] for name in IN_PROFILE} == IN_PROFILE
    assert found["LD_LIBRARY_PATH"] == ":".join(FOLDERS)


def test_variables_that_are_set_are_kept_even_if_empty(shell: list[str], drop_in: Path) -> None:
    mine = {"OMPI_MCA_coll_hcoll_enable": "1", "NASTY": ""}
    found = sourced(shell, drop_in, mine)
    assert {name: found[name] for name in mine} == mine


def test_variables_that_are_set_but_not_exported_are_kept(shell: list[str], drop_in: Path) -> None:
    assert "OMPI_MCA_coll_hcoll_enable" not in sourced(shell, drop_in, {}, before="OMPI_MCA_coll_hcoll_enable=1\n")


@pytest.mark.parametrize("mine", ["/mine", FOLDERS[0], f"/mine:{FOLDERS[1]}:/other"])
def test_folders_are_appended_to_the_users_and_never_twice(shell: list[str], drop_in: Path, mine: str) -> None:
    missing = [folder for folder in FOLDERS if folder not in mine.split(":")]
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": mine}, times=3)
    assert found["LD_LIBRARY_PATH"].split(":") == [*mine.split(":"), *missing]


def test_an_empty_path_gets_no_empty_entry(shell: list[str], drop_in: Path) -> None:
    # An empty entry would be the current folder.
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": ""})
    assert found["LD_LIBRARY_PATH"] == ":".join(FOLDERS)


def test_a_folder_that_is_a_prefix_of_another_is_added(shell: list[str], drop_in: Path) -> None:
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": f"{FOLDERS[0]}64"})
    assert FOLDERS[0] in found["LD_LIBRARY_PATH"].split(":")


def test_without_variables_there_is_no_file() -> None:
    assert profile_text({}, []) is None


# Blocks in the system files of Open MPI and UCX.

VARIABLES = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "OMPI_MCA_coll_hcoll_enable": "0", "UCX_TLS": "tcp"}
BEGIN, END = "# BEGIN hpcai.azure nccl_environment\n", "# END hpcai.azure nccl_environment\n"
MCA = f"{BEGIN}coll_hcoll_enable = 0\n{END}"
UCX = f"{BEGIN}UCX_TLS=tcp\n{END}"


class Machine:
    """A tree with installations of MPI."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def converge(self, variables: dict[str, str]) -> list[str]:
        """Write the files, and return those that changed."""
        changes = mpi_files(Root(str(self.path)), variables)
        apply_all(changes)
        return [change.path[len(str(self.path)) :] for change in changes if change.changes]

    def text(self, path: str) -> str | None:
        """The content of a file; None if it does not exist."""
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
    assert machine.converge(VARIABLES) == [
        "/etc/openmpi/openmpi-mca-params.conf",
        "/opt/openmpi-5.0.8/etc/openmpi-mca-params.conf",
        "/opt/hpcx-v2.25/ompi/etc/openmpi-mca-params.conf",
        "/etc/ucx/ucx.conf",
        "/opt/hpcx-v2.25/ucx/etc/ucx/ucx.conf",
    ]
    assert machine.text("opt/hpcx-v2.25/ompi/etc/openmpi-mca-params.conf") == MCA
    assert machine.text("opt/hpcx-v2.25/ucx/etc/ucx/ucx.conf") == machine.text("etc/ucx/ucx.conf") == UCX
    assert machine.converge(VARIABLES) == []


def test_the_sites_own_lines_are_kept_after_the_block(machine: Machine) -> None:
    # The last line for a name wins there.
    machine.converge(VARIABLES)
    assert machine.text("etc/openmpi/openmpi-mca-params.conf") == f"{MCA}# theirs\nbtl = self\n"


def test_without_variables_everything_is_removed(machine: Machine) -> None:
    machine.converge(VARIABLES)
    assert len(machine.converge({})) == 5
    assert machine.text("etc/openmpi/openmpi-mca-params.conf") == "# theirs\nbtl = self\n"
    assert machine.text("etc/ucx/ucx.conf") is None
    assert machine.converge({}) == []


def test_no_file_is_created_if_nothing_is_installed(tmp_path: Path) -> None:
    assert Machine(tmp_path).converge(VARIABLES) == []


def test_an_empty_file_of_the_site_is_kept(machine: Machine) -> None:
    file = machine.path / "etc/openmpi/openmpi-mca-params.conf"
    file.write_text("")
    assert machine.converge({}) == []
    assert file.exists()


def test_an_incomplete_block_is_refused_with_the_files_name(machine: Machine) -> None:
    file = machine.path / "etc/openmpi/openmpi-mca-params.conf"
    file.write_text(BEGIN)
    with pytest.raises(BrokenBlock, match=str(file)):
        machine.converge(VARIABLES)
    assert machine.text("etc/ucx/ucx.conf") is None
