# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drop-in of login shells, read by real shells."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.files import profile_text

NASTY = "a 'b' \"c\" $HOME `id` \\ } ; # é"
VARIABLES = {"OMPI_MCA_coll_hcoll_enable": "0", "NASTY": NASTY, "EMPTY": ""}
FOLDERS = ["/usr/local/nccl-rdma-sharp-plugins/lib", "/opt/a b/lib"]

SHELLS = [["dash", "-eu"], ["bash", "-eu"], ["bash", "--posix", "-eu"], ["zsh", "-eu"], ["ksh", "-eu"]]


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that is here; dash and bash are everywhere where this is tested."""
    name, *options = request.param
    program = shutil.which(name)
    if program is None:
        assert name not in ("dash", "bash")
        pytest.skip(f"no {name}")
    return [program, *options]


@pytest.fixture
def drop_in(tmp_path: Path) -> Path:
    """The file."""
    text = profile_text(VARIABLES, FOLDERS)
    assert text
    file = tmp_path / "hpcai-nccl.sh"
    file.write_text(text, encoding="utf-8")
    return file


def sourced(
    shell: list[str], file: Path, environment: Mapping[str, str], times: int = 1, before: str = ""
) -> dict[str, str]:
    """The environment of a program that is started after the file was read."""
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


def test_sets_what_nobody_has_set(shell: list[str], drop_in: Path) -> None:
    found = sourced(shell, drop_in, {})
    assert {name: found[name] for name in VARIABLES} == VARIABLES
    assert found["LD_LIBRARY_PATH"] == ":".join(FOLDERS)


def test_leaves_what_is_set_even_to_nothing(shell: list[str], drop_in: Path) -> None:
    mine = {"OMPI_MCA_coll_hcoll_enable": "1", "NASTY": ""}
    found = sourced(shell, drop_in, mine)
    assert {name: found[name] for name in mine} == mine


def test_leaves_what_a_script_has_set_without_exporting_it(shell: list[str], drop_in: Path) -> None:
    assert "OMPI_MCA_coll_hcoll_enable" not in sourced(shell, drop_in, {}, before="OMPI_MCA_coll_hcoll_enable=1\n")


@pytest.mark.parametrize("mine", ["/mine", FOLDERS[0], f"/mine:{FOLDERS[1]}:/other"])
def test_puts_its_folders_behind_a_users_and_none_twice(shell: list[str], drop_in: Path, mine: str) -> None:
    missing = [folder for folder in FOLDERS if folder not in mine.split(":")]
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": mine}, times=3)
    assert found["LD_LIBRARY_PATH"].split(":") == [*mine.split(":"), *missing]


def test_an_empty_path_gets_no_empty_entry(shell: list[str], drop_in: Path) -> None:
    # An empty entry would be the current folder.
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": ""})
    assert found["LD_LIBRARY_PATH"] == ":".join(FOLDERS)


def test_a_folder_that_is_part_of_another_is_not_taken_for_it(shell: list[str], drop_in: Path) -> None:
    found = sourced(shell, drop_in, {"LD_LIBRARY_PATH": f"{FOLDERS[0]}64"})
    assert FOLDERS[0] in found["LD_LIBRARY_PATH"].split(":")


def test_nothing_to_say_is_no_file() -> None:
    assert profile_text({}, []) is None
