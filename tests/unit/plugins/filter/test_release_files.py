# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter release_files, in templates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Render = Callable[..., Any]
FILES = [
    {"name": "a.deb", "url": "https://example.com/a.deb"},
    {"name": "v1.tar.gz", "names": ["v1.tar.gz", "b-1.tar.gz"], "url": "https://example.com/v1.tar.gz"},
]


def found(render: Render, **options: Any) -> Any:
    """The filter's return value."""
    return render("files | hpcai.azure.release_files('containers', **options)", files=FILES, options=options)


def test_a_folder_with_all_files_needs_no_digests(render: Render, tmp_path: Path) -> None:
    for name in ("a.deb", "b-1.tar.gz"):
        (tmp_path / name).touch()
    wanted = {"a.deb": f"{tmp_path}/a.deb", "v1.tar.gz": f"{tmp_path}/b-1.tar.gz"}
    assert found(render, folder=str(tmp_path)) == {"local": wanted, "problems": []}
    (tmp_path / "v1.tar.gz").touch()
    assert found(render, folder=str(tmp_path))["local"]["v1.tar.gz"] == f"{tmp_path}/v1.tar.gz"


def test_files_missing_in_the_folder_are_problems_even_with_digests(render: Render, tmp_path: Path) -> None:
    (tmp_path / "a.deb").mkdir()
    assert found(render, folder=str(tmp_path), digests={"a.deb": "0" * 64})["problems"] == [
        f"{tmp_path} (containers_files) has no a.deb.",
        f"{tmp_path} (containers_files) has no v1.tar.gz or b-1.tar.gz.",
    ]


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "g" * 64, None])
def test_each_downloaded_file_needs_a_digest(render: Render, digest: str | None) -> None:
    answer = found(render, digests={"v1.tar.gz": "0aF" + "0" * 61, "a.deb": digest})
    assert answer["local"] == {}
    assert answer["problems"] == [
        'There is no digest of https://example.com/a.deb: set containers_sha256["a.deb"] to its SHA-256 digest '
        "(64 hexadecimal digits), or set containers_files to a folder with the file."
    ]
