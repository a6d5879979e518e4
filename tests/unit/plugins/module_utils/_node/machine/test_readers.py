# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A folder for root and the group of operators."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine import readers
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root

FOLDER = "/run/hpcai/health"


@pytest.mark.parametrize("before", [None, 0o755, 0o777])
def test_only_root_and_the_group_may_look_into_it(tmp_path: Path, before: int | None) -> None:
    folder = tmp_path / FOLDER[1:]
    if before is not None:
        folder.mkdir(parents=True)
        folder.chmod(before)
    readers.make_folder(Root(str(tmp_path)), FOLDER)
    found = folder.stat()
    assert (stat.S_IMODE(found.st_mode), stat.S_IMODE(folder.parent.stat().st_mode)) == (0o750, 0o755)
    if os.geteuid() == 0:
        assert found.st_gid == grp.getgrnam(readers.GROUP).gr_gid


def test_a_machine_without_the_group_keeps_it_for_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "GROUP", "no-such-group")
    readers.make_folder(Root(str(tmp_path)), FOLDER)
    assert (tmp_path / FOLDER[1:]).stat().st_gid == os.getegid()


def test_who_may_not_look_is_told_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(str(tmp_path))
    readers.demand(root, FOLDER)
    readers.make_folder(root, FOLDER)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigError, match="can be read by root and the group adm: run this with sudo"):
        readers.demand(root, FOLDER)
