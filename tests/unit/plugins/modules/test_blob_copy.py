# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module blob_copy: what it refuses before it calls azcopy. The tests of copying are in tests/contract/blob."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.modules import blob_copy

RunModule = Callable[..., dict[str, Any]]
URL = "https://a.blob.core.windows.net/data"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": "/there", "dest": "/here"}, "one of source and dest must be the URL of a container"),
        ({"source": URL, "dest": URL}, "one of source and dest must be the URL of a container"),
        ({"source": "/there", "dest": URL, "decompress": True}, "decompress requires a container as source"),
        ({"cap_mbps": -1.0}, "a cap of -1 is invalid"),
        ({"cap_mbps": "inf"}, "a cap of inf is invalid"),
        ({"cap_mbps": 0.5}, "too small for azcopy"),
        ({"timeout": 0}, "timeout must be at least 1"),
        ({"source": f"{URL}?sig=Secret"}, "a URL must not contain a SAS"),
        ({"sas": "two words"}, "HPCAI_BLOB_SAS does not contain a SAS"),
        ({"sas": "sv=1&sig=Secret", "sas_file": "/sas"}, "parameters are mutually exclusive: sas|sas_file"),
        ({"credential": "sas"}, "HPCAI_BLOB_SAS is empty"),
        ({"client_id": "me"}, "the client id 'me' is invalid"),
        ({"azcopy": "/nonexistent/azcopy", "source": "http://127.0.0.1:9/a/data"}, "/nonexistent/azcopy"),
    ],
)
def test_refuses_invalid_options_in_one_line_and_leaves_no_files(
    run_module: RunModule,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    arguments: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr(blob_copy, "Root", lambda _path: Root(str(tmp_path / "root")))
    monkeypatch.delenv("HPCAI_BLOB_SAS", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    given = {"source": URL, "dest": str(tmp_path / "to"), "work": str(work), **arguments}
    answer = run_module(blob_copy.main, **given)
    assert answer["failed"] is True
    assert words in answer["msg"]
    assert "\n" not in answer["msg"]
    assert "Secret" not in answer["msg"]
    assert not list(work.iterdir())
    assert not (tmp_path / "to").exists()
