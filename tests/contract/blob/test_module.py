# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module blob_copy with the real azcopy: it copies in both directions, once, as check mode predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from stand_ins.blob.azurite import Azurite, azcopy_in
from stand_ins.blob.sas import account_sas, wrong_sas

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import blob_copy

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the module and return its result, with its complete output in ``_out``."""
    monkeypatch.setattr(blob_copy, "Root", lambda _path: Root(str(tmp_path / "root")))
    (tmp_path / "work").mkdir()
    given = {"azcopy": azcopy_in(programs), "work": str(tmp_path / "work"), "sas": account_sas()}

    def call(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        words = {**given, **arguments, "_ansible_check_mode": check_mode, "_ansible_diff": True}
        with patch_module_args(words), pytest.raises(SystemExit):
            blob_copy.main()
        out = capsys.readouterr().out
        return {**json.loads(out), "_out": out}

    return call


def test_a_download_copies_once_what_check_mode_predicts(run: Run, account: Azurite, tmp_path: Path) -> None:
    url = account.container("module-down")
    for name in ("a.json", "deep/b.json", "c.txt"):
        account.put("module-down", name, name.encode())
    words = {"source": url, "dest": str(tmp_path / "to"), "pattern": "*.json"}
    predicted = run(check_mode=True, **words)
    assert not (tmp_path / "to").exists()
    done = run(**words)
    assert (done["changed"], done["files"], done["diff"]) == (True, ["a.json", "deep/b.json"], predicted["diff"])
    assert (tmp_path / "to/deep/b.json").read_bytes() == b"deep/b.json"
    assert not (tmp_path / "to/c.txt").exists()
    again = run(**words)
    assert (again["changed"], again["files"], again["same"]) == (False, [], 2)
    assert again["diff"]["before"] == again["diff"]["after"]

    (tmp_path / "to/a.json").write_bytes(b"A.json")
    assert run(**words)["changed"] is False
    assert run(**words, full=True)["files"] == ["a.json"]
    assert not list((tmp_path / "work").iterdir())


def test_an_upload_copies_once_what_check_mode_predicts(run: Run, account: Azurite, tmp_path: Path) -> None:
    url = account.container("module-up")
    (tmp_path / "from/deep dir").mkdir(parents=True)
    (tmp_path / "from/a%20").write_bytes(b"a")
    (tmp_path / "from/deep dir/b").write_bytes(b"b")
    words = {"source": str(tmp_path / "from"), "dest": f"{url}/kept"}
    assert run(check_mode=True, **words)["files"] == ["a%20", "deep dir/b"]
    assert run(**words)["changed"] is True
    assert run(**words)["changed"] is False
    (tmp_path / "from/a%20").write_bytes(b"c")
    assert run(**words)["files"] == ["a%20"]


def test_errors_are_one_line_without_the_secret(run: Run, account: Azurite, tmp_path: Path) -> None:
    url = account.container("module-faults")
    failed = run(source=url, dest=str(tmp_path / "to"), sas=wrong_sas())
    assert failed["failed"] is True
    assert "access was denied (403)" in failed["msg"]
    assert wrong_sas().partition("sig=")[2] not in failed["_out"]
    assert "nothing" not in failed["msg"]
    assert "one of source and dest must be the URL" in run(source=url, dest=url)["msg"]
    assert "there is no blob below the source" in run(source=url, dest=str(tmp_path / "to"))["msg"]
