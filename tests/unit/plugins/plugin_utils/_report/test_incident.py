# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Joining archives of machines that are not trusted."""

from __future__ import annotations

import io
import json
import pathlib
import tarfile
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._report import incident

GOOD: dict[str, Any] = {"schema": 1, "node": "a", "made_at": "2026-01-01T00:00:00Z", "hpcnode": "0.2.0", "seconds": 1.0}


def archive(tmp_path: pathlib.Path, members: dict[str, str], link: str = "") -> str:
    """An archive with these members."""
    path = tmp_path / "part.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            made.addfile(member)
    return str(path)


def joined(tmp_path: pathlib.Path, part: incident.NodeArchive) -> dict[str, str]:
    """The texts of the archive of one machine."""
    path = tmp_path / "all.tar.gz"
    incident.write_incident([part], str(path), "Diagnostics", 0.0)
    with tarfile.open(path) as opened:
        found = {}
        for one in opened:
            file = opened.extractfile(one)
            assert one.isreg()
            assert one.name.startswith("all/")
            found[one.name.removeprefix("all/")] = file.read().decode() if file else ""
        return found


def test_only_known_files_are_copied_and_pages_are_made_again(tmp_path: pathlib.Path) -> None:
    item = {"name": "cpu", "title": "<script>", "exit": 0, "seconds": 1, "redacted": 3, "cut": "", "note": "<b>x</b>"}
    members = {
        "x/index.json": json.dumps({**GOOD, "items": [item, {"name": "../../etc/passwd"}, "no item"]}),
        "x/index.html": "<script>alert(1)</script>",
        "x/items/cpu.txt": "text",
        "x/items/unknown.txt": "text of an item that does not exist",
        "../../evil.txt": "x",
        "/etc/cron.d/evil": "x",
    }
    path = archive(tmp_path, members, link="x/items/gpu.txt")
    found = joined(tmp_path, incident.NodeArchive("a", path))
    assert set(found) == {"index.html", "index.json", "a/index.html", "a/index.json", "a/items/cpu.txt"}
    assert "script" not in found["a/index.html"]
    assert "&lt;b&gt;x&lt;/b&gt;" in found["a/index.html"]
    assert json.loads(found["index.json"])["machines"]["a"]["hidden"] == 3


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, "no index"),
        ({"x/index.json": "{"}, "cannot be read"),
        ({"x/index.json": "[" * 100000}, "cannot be read"),
        ({"x/index.json": '{"schema": 2, "items": []}'}, "no index of a known schema"),
    ],
)
def test_an_invalid_archive_is_a_problem_of_its_machine(
    tmp_path: pathlib.Path, members: dict[str, str], problem: str
) -> None:
    found = joined(tmp_path, incident.NodeArchive("a", archive(tmp_path, members)))
    assert set(found) == {"index.html", "index.json"}
    assert problem in json.loads(found["index.json"])["machines"]["a"]["problem"]


@pytest.mark.parametrize("text", ['{"checks": 5}', '{"checks": {"a": 1}}', '{"checks": ' + "[" * 100000])
def test_results_of_another_form_are_left_out_of_the_page(tmp_path: pathlib.Path, text: str) -> None:
    index = json.dumps({**GOOD, "items": [{"name": "health"}]})
    found = joined(
        tmp_path, incident.NodeArchive("a", archive(tmp_path, {"x/index.json": index, "x/items/health.txt": text}))
    )
    assert json.loads(found["index.json"])["machines"]["a"]["problem"] == ""
    assert found["a/items/health.txt"] == text


def test_an_error_of_one_machines_page_is_a_problem_of_this_machine(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> str:
        raise TypeError("unexpected type")

    monkeypatch.setattr(incident, "page", fail)
    part = incident.NodeArchive("a", archive(tmp_path, {"x/index.json": json.dumps({**GOOD, "items": []})}))
    found = joined(tmp_path, part)
    assert set(found) == {"index.html", "index.json"}
    assert "unexpected type" in json.loads(found["index.json"])["machines"]["a"]["problem"]


def test_a_cut_file_and_a_file_that_is_no_archive_are_problems(tmp_path: pathlib.Path) -> None:
    whole = pathlib.Path(archive(tmp_path, {"x/index.json": json.dumps({**GOOD, "items": []}), "x/b": "b" * 9999}))
    for data in (whole.read_bytes()[:150], b"not an archive"):
        whole.write_bytes(data)
        found = joined(tmp_path, incident.NodeArchive("a", str(whole)))
        assert "cannot be read" in json.loads(found["index.json"])["machines"]["a"]["problem"]


def test_a_file_that_is_larger_than_any_item_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident, "MOST_BYTES", 100)
    path = archive(tmp_path, {"x/items/cpu.txt": "x" * 101, "x/index.json": json.dumps({**GOOD, "items": []})})
    with pytest.raises(incident.BadArchive, match="too large"):
        incident.read_archive(path)


@pytest.mark.parametrize("host", ["..", "../x", "a/b"])
def test_a_name_that_is_a_path_is_refused(tmp_path: pathlib.Path, host: str) -> None:
    path = archive(tmp_path, {"x/index.json": json.dumps({**GOOD, "items": []})})
    assert set(joined(tmp_path, incident.NodeArchive(host, path))) == {"index.html", "index.json"}


def test_a_failed_write_leaves_no_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(incident, "_add", full)
    with pytest.raises(OSError, match="No space"):
        incident.write_incident([], str(tmp_path / "all.tar.gz"), "x", 0.0)
    assert not list(tmp_path.iterdir())
