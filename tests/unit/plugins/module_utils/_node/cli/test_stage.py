# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode stage: usage, and what needs no account. What does is in tests/contract/blob."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import GOOD, UNKNOWN, USAGE

SOURCE = "https://a.blob.core.windows.net/data"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --source x", "the following arguments are required: --target"),
        ("run --target /t", "the following arguments are required: --source"),
        ("status --target /t --source x", "--source goes with run, plan, not with status"),
        ("run --source nothing --target /t", "the URL of a container must start with https://"),
        (f"run --source {SOURCE}?sig=Secret --target /t", "a URL must not contain a SAS"),
        (f"run --source {SOURCE} --target /t --shard 4/4", "I from 0 to N - 1"),
        (f"run --source {SOURCE} --target /t --stall 0", "--stall must be more than 0"),
        (f"plan --source {SOURCE} --processes -1", "--processes must be at least 1"),
        (f"plan --source {SOURCE} --processes 0", "--processes must be at least 1"),
        (f"run --source {SOURCE} --target /t --workers 0", "--workers must be at least 1"),
        (f"plan --source {SOURCE} --connections -1", "--connections must be at least 0"),
        (f"plan --source {SOURCE} --cap-mbps nan", "a cap of nan is invalid"),
        (f"plan --source {SOURCE} --account-gbps inf", "an account's limit of inf is invalid"),
        (f"run --source {SOURCE} --target /t --wait nan", "--wait must be more than 0"),
        (f"plan --source {SOURCE} --cap-mbps 0.2", "too small for azcopy"),
        (f"plan --source {SOURCE} --account-gbps 0.001 --shard 0/64", "use fewer"),
        (f"run --source {SOURCE} --target /t --root /tmp", "leave out --root"),
        (f"plan --source {SOURCE} --work /nonexistent", "does not exist: create it"),
    ],
)
def test_refuses_what_makes_no_sense(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"):
        monkeypatch.delenv(name, raising=False)
    assert frame.main(["stage", *words.split()]) == USAGE
    error = capsys.readouterr().err
    assert message in error
    assert "Secret" not in error


def test_says_that_nothing_was_staged_and_cleans_no_data(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "data").write_text("mine", encoding="utf-8")
    for action in ("status", "verify"):
        assert frame.main(["stage", action, "--target", str(tmp_path), "--json"]) == UNKNOWN
    (tmp_path / ".hpcai-stage").mkdir()
    capsys.readouterr()
    assert frame.main(["stage", "clean", "--target", str(tmp_path), "--json"]) == GOOD
    assert json.loads(capsys.readouterr().out)["removed"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
