# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collecting diagnostics before a repair destroys them."""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import goodput
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli import main as frame
from ansible_collections.hpcai.azure.plugins.module_utils._node.diag import perform
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.kernel import read_boot_id
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import CommandFailed, Result

from .test_bundle import machine, write


def run(words: Sequence[str]) -> Result:
    """systemctl, which starts everything."""
    return Result(tuple(words), 0, "", "")


def wanted(tmp_path: pathlib.Path, **settings: object) -> Root:
    """A machine with a fault for which it is replaced, that wants to collect diagnostics."""
    root = machine(tmp_path)
    write(tmp_path, "/etc/hpcai/diag.json", json.dumps({"schema": 1, "on_fault": True, **settings}))
    return root


def test_the_unit_is_started_once_for_a_fault_of_this_boot(tmp_path: pathlib.Path) -> None:
    root = wanted(tmp_path)
    assert perform.start_if_due(root, run) == "collecting diagnostics"
    done = perform.capture(root, 5)
    assert done.faults == ("gpu_count",)
    assert root.exists(done.path)
    assert perform.start_if_due(root, run) == ""
    # Another boot, or another fault, is another incident.
    write(tmp_path, "/proc/sys/kernel/random/boot_id", "another")
    text = (tmp_path / "run/hpcai/health/periodic.json").read_text().replace(read_boot_id(root), "another")
    assert perform.destructive_faults(root) == ()
    write(tmp_path, "/run/hpcai/health/periodic.json", text.replace("11111111-2222-3333-4444-555555555555", "another"))
    assert perform.start_if_due(root, run) == "collecting diagnostics"


@pytest.mark.parametrize("action", ["nothing", "observe"])
def test_a_fault_that_destroys_nothing_starts_nothing(tmp_path: pathlib.Path, action: str) -> None:
    root = wanted(tmp_path)
    path = tmp_path / "run/hpcai/health/periodic.json"
    path.write_text(path.read_text().replace('"replace"', f'"{action}"'))
    assert perform.start_if_due(root, run) == ""


def test_a_fault_that_comes_back_in_the_same_boot_starts_nothing(tmp_path: pathlib.Path) -> None:
    root = wanted(tmp_path)
    path = tmp_path / "run/hpcai/health/periodic.json"
    first = path.read_text()
    second = first.replace('"gpu_count"', '"gpu_links"')
    for text in (first, second):
        path.write_text(text)
        assert perform.start_if_due(root, run) == "collecting diagnostics"
        perform.capture(root, 5)
    path.write_text(first)
    assert perform.start_if_due(root, run) == ""


def test_the_new_archive_stays_if_the_clock_was_set_back(tmp_path: pathlib.Path) -> None:
    root = wanted(tmp_path, keep=2)
    for year in (2097, 2098):
        write(tmp_path, f"/var/lib/hpcai/diag/hpcai-diag-batch-3-{year}0101T000000Z.tar.gz", "")
    done = perform.capture(root, 5)
    assert root.exists(done.path)
    assert done.removed == ("hpcai-diag-batch-3-20970101T000000Z.tar.gz",)


def test_nothing_is_started_without_the_setting(tmp_path: pathlib.Path) -> None:
    assert perform.start_if_due(machine(tmp_path), run) == ""


def test_invalid_settings_do_not_stop_the_report_of_the_node(tmp_path: pathlib.Path) -> None:
    root = wanted(tmp_path, keep=0)
    assert "no diagnostics were collected" in perform.start_if_due(root, run)
    with pytest.raises(ConfigError, match="keep must be"):
        perform.capture(root, 5)


def test_a_failed_copy_keeps_the_archive_and_says_why(tmp_path: pathlib.Path) -> None:
    root = wanted(tmp_path, upload="https://acct.blob.core.windows.net/diag")

    def refuse(_root: Root, _path: str, _url: str) -> None:
        raise CommandFailed("no access")

    done = perform.capture(root, 5, refuse)
    assert (done.uploaded, done.problem) == (False, "not copied to https://acct.blob.core.windows.net/diag: no access")
    assert root.exists(done.path)


def test_the_copy_gets_the_archive_and_the_url(tmp_path: pathlib.Path) -> None:
    copied: list[tuple[str, str]] = []
    root = wanted(tmp_path, upload="https://acct.blob.core.windows.net/diag", pseudonyms=True)
    done = perform.capture(root, 5, lambda _root, path, url: copied.append((path, url)))
    assert done.uploaded
    assert copied == [(root.at(done.path), "https://acct.blob.core.windows.net/diag")]
    assert "batch-3" not in done.path


def test_the_command_writes_the_archive_and_the_names_beside_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, target = tmp_path / "tree", tmp_path / "out"
    target.mkdir()
    machine(tree)
    words = ["diag", "collect", "--json", "--root", str(tree), "--output", str(target), "--pseudonyms"]
    assert frame.main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert pathlib.Path(answer["path"]).stat().st_mode & 0o777 == 0o600
    names = json.loads(pathlib.Path(f"{answer['path']}.names.json").read_text())
    assert "batch-3" in names
    assert answer["index"]["pseudonyms"] is True


def test_the_names_are_not_written_through_a_users_link(tmp_path: pathlib.Path) -> None:
    tree, target, victim = tmp_path / "tree", tmp_path / "out.tar.gz", tmp_path / "shadow"
    machine(tree)
    victim.write_text("root:x", encoding="utf-8")
    link = pathlib.Path(f"{target}.names.json")
    link.symlink_to(victim)
    assert frame.main(["diag", "collect", "--root", str(tree), "--output", str(target), "--pseudonyms"]) == 0
    assert victim.read_text(encoding="utf-8") == "root:x"
    assert not link.is_symlink()
    assert link.stat().st_mode & 0o777 == 0o600
    assert "batch-3" in json.loads(link.read_text(encoding="utf-8"))


def test_the_page_of_goodput_is_not_written_through_a_users_link(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, page = tmp_path / "shadow", tmp_path / "page.html"
    victim.write_text("root:x", encoding="utf-8")
    page.symlink_to(victim)
    found = (Ledger(0.0, 60.0), goodput.output.Rates())
    monkeypatch.setattr(goodput.gather, "gather", lambda *_given: found)
    monkeypatch.setattr(goodput.gather, "read_settings", lambda _root: goodput.gather.Settings())
    assert frame.main(["goodput", "--html", str(page)], (goodput.COMMAND,)) == 0
    assert victim.read_text(encoding="utf-8") == "root:x"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert page.stat().st_mode & 0o777 == 0o644
    assert sorted(one.name for one in tmp_path.iterdir()) == ["page.html", "shadow"]


@pytest.mark.parametrize(
    "words", [["collect", "--salt", "x"], ["collect", "--with", "tcpdump"], ["incident", "--root", "/usr"]]
)
def test_wrong_usage_is_refused(words: list[str]) -> None:
    assert frame.main(["diag", *words]) == 3


def test_the_catalogue_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["diag", "list"]) == 0
    shown = capsys.readouterr().out
    assert "kernel_log" in shown
    assert "may contain names of users" in shown


class _Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("more", "term", "shown"), [([], "xterm", True), (["--json"], "xterm", False), ([], "dumb", False)]
)
def test_a_terminal_shows_the_running_item(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, more: list[str], term: str, shown: bool
) -> None:
    stream = _Terminal()
    machine(tmp_path / "tree")
    with monkeypatch.context() as patched:
        patched.setenv("TERM", term)
        patched.setattr("sys.stderr", stream)
        words = ["diag", "collect", *more, "--root", str(tmp_path / "tree"), "--output", str(tmp_path / "a.tar.gz")]
        assert frame.main(words) == 0
    assert ("hpcnode diag: item 1 of " in stream.getvalue()) is shown
    assert stream.getvalue().endswith("\r\033[K" if shown else "")
    assert shown or not stream.getvalue()
