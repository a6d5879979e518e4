# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode slurm."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame


def call(*words: str) -> int:
    """Run hpcnode slurm."""
    return frame.main(["slurm", *words])


def test_without_settings_it_cannot_tell(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("dump", "--root", str(tmp_path)) == 2
    assert "no /etc/hpcai/slurm_state.json" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("restore",), ("dump", "/x"), ("list", "--force")])
def test_arguments_that_make_no_sense_are_refused(words: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    assert call(*words, "--root", str(tmp_path)) == 3


def test_it_lists_complete_dumps_oldest_first(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"schema": 1, "cluster": "hpcai", "state": "/s", "database": "", "path": "/none", "keep": 7}
    (tmp_path / "etc/hpcai").mkdir(parents=True)
    (tmp_path / "etc/hpcai/slurm_state.json").write_text(json.dumps(settings), encoding="utf-8")
    for hour in ("02", "01"):
        folder = tmp_path / f"dumps/hpcai-20261122T{hour}0000Z"
        folder.mkdir(parents=True)
        manifest = {"schema": 1, "cluster": "hpcai", "made_at": f"2026-11-22T{hour}:00:00Z", "slurm": "22.05"}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (tmp_path / "dumps/.partial-hpcai-20261122T030000Z").mkdir()
    assert call("list", "--json", "--root", str(tmp_path), "--to", str(tmp_path / "dumps")) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["made_at"][11:13] for one in document["dumps"]] == ["01", "02"]
