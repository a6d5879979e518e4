# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tells slurmd its name: who wrote it, and what it says."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import (
    ENV_FILE,
    SlurmdEnv,
    is_ours,
    read,
    slurmd_env,
)

OPTIONS = 'SLURMD_OPTIONS="-N a-1 --conf-server ctl"'


def node_with(folder: pathlib.Path, text: str) -> Root:
    """A node whose file says that."""
    file = folder / ENV_FILE.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return Root(str(folder))


def test_slurmd_gets_its_name_and_all_controllers() -> None:
    lines = slurmd_env("compute-17", ("10.0.0.4", "ctl2")).splitlines()
    assert lines[0].startswith("# Written by hpcnode")
    assert lines[-1] == 'SLURMD_OPTIONS="-N compute-17 --conf-server 10.0.0.4,ctl2"'


def test_tells_its_own_file_from_the_sites(tmp_path: pathlib.Path) -> None:
    ours = slurmd_env("a-1", ["ctl"])
    assert not is_ours(Root(str(tmp_path)))
    assert is_ours(node_with(tmp_path, ours))
    assert not is_ours(node_with(tmp_path, f"# Ansible managed\n{OPTIONS}\n"))
    assert not is_ours(node_with(tmp_path, f"{OPTIONS}\n"))
    assert not is_ours(node_with(tmp_path, ""))
    # As the role slurm changes it where the site wants another name.
    assert not is_ours(node_with(tmp_path, ours.replace('"-N a-1', '"-N other')))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (slurmd_env("a-1", ["10.0.0.4", "ctl2:7000"]), SlurmdEnv("a-1", ("10.0.0.4", "ctl2:7000"))),
        (f"#\n# Ansible managed\n#\n{OPTIONS}\n", SlurmdEnv("a-1", ("ctl",))),
        ('SLURMD_OPTIONS="-M -N a-1 -v --conf-server ctl -b"\n', SlurmdEnv("a-1", ("ctl",))),
    ],
)
def test_reads_name_and_controllers(tmp_path: pathlib.Path, text: str, said: SlurmdEnv) -> None:
    assert read(node_with(tmp_path, text)) == said


def test_no_file_is_no_slurmd(tmp_path: pathlib.Path) -> None:
    assert read(Root(str(tmp_path))) is None


@pytest.mark.parametrize("text", ["", "SLURMD_OPTIONS=\n", 'SLURMD_OPTIONS="-N a-1"\n', 'X="-N a --conf-server c"\n'])
def test_a_file_that_lacks_something_is_an_error(tmp_path: pathlib.Path, text: str) -> None:
    with pytest.raises(ConfigError, match="run site"):
        read(node_with(tmp_path, text))
