# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which NCCL is installed, and whether it is new enough."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result, run
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.nccl_environment.library import (
    NcclCopy,
    check_version,
    find_copies,
    loader_cache,
    parse_version,
    version_of_code,
)

LIB = "usr/lib/x86_64-linux-gnu"
CACHE = """\
3 libs found in cache `/etc/ld.so.cache'
\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnccl.so.2
\tlibnccl.so.2 (libc6,x86-64) => /opt/nccl/lib/libnccl.so.2
\tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6
"""


class Machine:
    """A tree with libraries, and what commands answer there."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, Root(str(path))
        self.cache, self.code, self.asked = "", "", list[Sequence[str]]()

    def library(self, folder: str, version: str) -> None:
        """A copy of NCCL with its links, or without a version in its name."""
        target = self.path / folder
        target.mkdir(parents=True)
        name = f"libnccl.so.{version}" if version else "libnccl.so.2"
        (target / name).write_bytes(b"")
        if version:
            (target / "libnccl.so.2").symlink_to(name)
            (target / "libnccl.so").symlink_to("libnccl.so.2")

    def run(self, command: Sequence[str]) -> Result:
        """Answer a command."""
        self.asked.append(command)
        text = self.cache if command[0] == "/sbin/ldconfig" else self.code
        return Result(tuple(command), 0 if text else 1, text, "")

    def copies(self, folders: Sequence[str] = ()) -> tuple[NcclCopy, ...]:
        """The copies that are found."""
        return find_copies(self.root, self.run, loader_cache(self.root, self.run), folders)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without NCCL."""
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("2.9.9", "2.10.3"), ("2.9.6", "2.9.9"), ("2.9", "2.9.9"), ("2.9.9", "2.18.5-1+cuda12.2"), ("2.9.9", "10.0")],
)
def test_versions_compare_as_numbers(older: str, newer: str) -> None:
    assert parse_version(older) < parse_version(newer)


@pytest.mark.parametrize("text", ["", "2", "new", "2.9.9.1", "v2.9", "2.9.x", "-2.9.9"])
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a version of NCCL"):
        parse_version(text)


@pytest.mark.parametrize(
    ("code", "version"),
    [(2708, (2, 7, 8)), (2804, (2, 8, 4)), (20909, (2, 9, 9)), (21805, (2, 18, 5)), (23004, (2, 30, 4))],
)
def test_both_formats_of_nccls_version_number_are_read(code: int, version: tuple[int, int, int]) -> None:
    assert version_of_code(code) == version


def test_all_copies_are_found_and_the_loaders_is_first(machine: Machine) -> None:
    machine.library("opt/nccl/lib", "2.8.3")
    machine.library(LIB, "2.18.5")
    machine.library("srv/mine", "2.21.5")
    machine.cache = CACHE
    assert [(copy.path, copy.version, copy.default) for copy in machine.copies(["/srv/m*"])] == [
        (f"/{LIB}/libnccl.so.2.18.5", (2, 18, 5), True),
        ("/srv/mine/libnccl.so.2.21.5", (2, 21, 5), False),
        ("/opt/nccl/lib/libnccl.so.2.8.3", (2, 8, 3), False),
    ]
    assert len(machine.asked) == 1


def test_a_copy_without_a_version_in_its_name_is_queried(machine: Machine) -> None:
    machine.library("opt/nccl/build/lib", "")
    machine.code = "20909"
    assert [copy.version for copy in machine.copies()] == [(2, 9, 9)]
    asked = machine.asked[-1]
    assert asked[:2] == ["timeout", "-k"]
    assert asked[-1] == str(machine.path / "opt/nccl/build/lib/libnccl.so.2")


@pytest.mark.parametrize("output", ["", "ERROR: dlopen", "²"])
def test_a_copy_that_does_not_answer_has_no_version(machine: Machine, output: str) -> None:
    machine.library("opt/nccl/lib", "")
    machine.code = output
    assert [copy.version for copy in machine.copies()] == [None]


@pytest.mark.parametrize("place", ["opt", "opt/nccl/lib", "opt/nccl/lib/libnccl.so.2"])
def test_a_copy_that_users_can_replace_is_not_loaded(machine: Machine, place: str) -> None:
    machine.library("opt/nccl/lib", "")
    machine.code = "20909"
    (machine.path / place).chmod(0o777)
    assert [copy.version for copy in machine.copies()] == [None]
    assert not [command for command in machine.asked if command[0] == "timeout"]


def test_a_dangling_link_is_no_copy(machine: Machine) -> None:
    (machine.path / LIB).mkdir(parents=True)
    (machine.path / LIB / "libnccl.so.2").symlink_to("libnccl.so.2.18.5")
    machine.cache = CACHE
    assert machine.copies() == ()


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")
@pytest.mark.parametrize(
    ("body", "version"),
    [("*version = 21805; return 0;", (2, 18, 5)), ("return 3;", None), ("for (;;) pause();", None)],
)
def test_a_real_library_is_queried_with_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, version: tuple[int, int, int] | None
) -> None:
    folder = tmp_path / "opt/nccl/lib"
    folder.mkdir(parents=True)
    source = tmp_path / "nccl.c"
    source.write_text(f"int pause(void); int ncclGetVersion(volatile int *version) {{ {body} }}\n")
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / "libnccl.so.2"), str(source)]
    subprocess.run(command, check=True, timeout=60)
    monkeypatch.setitem(find_copies.__globals__, "_ASK_LIMIT_S", 2)
    start = time.monotonic()
    found = find_copies(Root(str(tmp_path)), run, {})
    assert [copy.version for copy in found] == [version]
    # A call that never returns is given up.
    assert time.monotonic() - start < 20


def copy(path: str, version: str | None, default: bool = False) -> NcclCopy:
    """A copy of NCCL."""
    return NcclCopy(path, parse_version(version) if version else None, default)


def test_without_a_copy_the_verdict_is_unknown() -> None:
    verdict = check_version([], "2.9.9", "fail")
    assert (verdict.verdict, verdict.version) == ("unknown", None)
    assert "containers" in verdict.summary


def test_with_a_copy_of_unknown_version_the_verdict_is_unknown() -> None:
    assert check_version([copy("/a", None, True)], "2.9.9", "fail").verdict == "unknown"


@pytest.mark.parametrize("when_old", ["warn", "fail"])
def test_the_verdict_for_an_old_copy_is_the_users_choice(when_old: str) -> None:
    verdict = check_version([copy("/a", "2.8.4", True)], "2.9.9", when_old)
    assert (verdict.verdict, verdict.version) == (when_old, "2.8.4")
    assert verdict.summary == "/a is NCCL 2.8.4; 2.9.9 or newer is needed."
    assert verdict.as_dict()["copies"] == [{"path": "/a", "version": "2.8.4", "default": True, "old": True}]


def test_the_loaders_copy_decides_and_other_old_copies_are_named() -> None:
    verdict = check_version([copy("/a", "2.10.0", True), copy("/b", "2.8.4")], "2.9.9", "fail")
    assert verdict.verdict == "pass"
    assert verdict.summary == "/a is NCCL 2.10.0. Also found, and older than 2.9.9: /b."


def test_without_the_loaders_copy_the_oldest_decides() -> None:
    assert check_version([copy("/a", "2.10.0"), copy("/b", "2.8.4")], "2.9.9", "fail").verdict == "fail"
    assert check_version([copy("/a", "2.10.0"), copy("/b", None)], "2.9.9", "fail").verdict == "unknown"
