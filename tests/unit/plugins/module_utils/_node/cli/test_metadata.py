# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hpcnode metadata on this machine, with its settings file and kernel played, and on another root."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import metadata
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.command import BAD, GOOD, UNKNOWN, USAGE
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

from ..setup.metadata.filters import Kernel


class Here(Root):
    """A folder that passes for the running machine."""

    is_this_machine = True

    def at(self, path: str) -> str:
        """Below the folder all the same."""
        return f"{self.path}/{path.lstrip('/')}"


@pytest.fixture
def settings(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The settings file, which asks for the filter."""
    monkeypatch.setattr(metadata, "Root", lambda _path: Here(str(tmp_path)))
    file = tmp_path / "etc/hpcai/metadata.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"schema": 1, "guard": true, "users": ["998"]}')
    return file


@pytest.mark.usefixtures("settings")
def test_it_is_attached_and_detached(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    assert frame.main(["metadata"]) == BAD
    assert frame.main(["metadata", "attach"]) == GOOD
    assert len(kernel.programs) == 3
    assert frame.main(["metadata"]) == GOOD
    assert capsys.readouterr().out.split("\n") == [
        "the kernel lacks the filter for sockets that root opened",
        "attached",
        "attached",
        "",
    ]
    assert frame.main(["metadata", "detach"]) == GOOD
    assert len(kernel.programs) == 1


def test_what_is_switched_off_is_detached(settings: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch)
    frame.main(["metadata", "attach"])
    settings.write_text('{"schema": 1, "guard": false, "users": []}')
    assert frame.main(["metadata"]) == BAD
    assert frame.main(["metadata", "attach"]) == GOOD
    assert len(kernel.programs) == 1
    assert frame.main(["metadata"]) == GOOD


@pytest.mark.usefixtures("settings")
def test_a_kernel_that_does_not_say_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["metadata", "attach", "--json"]) == UNKNOWN
    document = json.loads(capsys.readouterr().out)
    assert (document["attached"], document["problem"]) == (None, "no cgroup2 file system is mounted")


def test_another_root_has_no_kernel(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["--root", str(tmp_path), "metadata"]) == UNKNOWN
    assert frame.main(["--root", str(tmp_path), "metadata", "attach"]) == USAGE
    assert "works on the running machine only" in capsys.readouterr().err
