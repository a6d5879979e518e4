# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One version of the node tool takes the place of another while the tool starts, or while another run does the same."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import pytest


def test_a_tool_that_starts_while_versions_change_is_one_of_them(machine: Any) -> None:
    machine.install("1.0")
    said: list[str] = []
    failures: list[str] = []
    done = threading.Event()

    def start() -> None:
        while not done.is_set():
            ran = subprocess.run([machine.path("/usr/bin/hpcnode")], capture_output=True, text=True, check=False)
            said.append(ran.stdout)
            failures.extend([ran.stderr] if ran.returncode else [])

    starting = threading.Thread(target=start)
    starting.start()
    number = 0
    # On a busy machine starts are slower than installations.
    while number < 60 or len(said) < 6:
        machine.install("2.0" if number % 2 == 0 else "1.0")
        number += 1
    done.set()
    starting.join()
    assert failures == []
    assert len(said) > 5, number
    assert set(said) <= {"1.0 1.0", "2.0 2.0"}


MEETING = """\
import os, time
for turn in range({turns}):
    if not os.path.exists(f"{folder}/{{turn}}-loading"):
        open(f"{folder}/{{turn}}-loading", "w").close()
        while not os.path.exists(f"{folder}/{{turn}}-exchanged"):
            time.sleep(0.001)
        raise ImportError("a file was gone")
"""
"""A start that meets this many exchanges in turn."""


EXCHANGES = [[["2.0"]], [["2.0", "1.0"]], [["2.0"], ["1.0"], ["2.0"], ["1.0"], ["2.0"]]]
"""Versions that come while a start loads, by attempt."""


@pytest.mark.parametrize("exchanges", EXCHANGES, ids=["once", "there-and-back", "five-times"])
def test_a_start_that_meets_exchanges_begins_again(
    machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, exchanges: list[list[str]]
) -> None:
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    names = machine.wish.__globals__
    head = MEETING.format(turns=len(exchanges), folder=meeting).encode()

    def meeting_sources(version: str, plain: Any = names["sources"]) -> dict[str, bytes]:
        files = plain(version)
        return {**files, "about.py": head + files["about.py"]}

    monkeypatch.setitem(names, "sources", meeting_sources)
    machine.install("1.0")
    command = [str(machine.path("/usr/bin/hpcnode"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as starting:
        for turn, versions in enumerate(exchanges):
            while not (meeting / f"{turn}-loading").exists():
                assert starting.poll() is None, starting.communicate()[1]
                time.sleep(0.001)
            for version in versions:
                machine.install(version)
            (meeting / f"{turn}-exchanged").touch()
        said, failure = starting.communicate(timeout=60)
    assert (failure, starting.returncode) == ("", 0)
    assert said == f"{exchanges[-1][-1]} {exchanges[-1][-1]}"


def test_two_runs_at_once_both_end_well(machine: Any) -> None:
    script = (
        "import sys; sys.path[:0] = sys.argv[2:];"
        "import importlib.util as u; s = u.spec_from_file_location('c', sys.argv[1]); c = u.module_from_spec(s);"
        f"s.loader.exec_module(c); import pathlib; m = c.Machine(pathlib.Path({str(machine.folder)!r}));"
        "[m.install(v) for v in ('1.0', '2.0') * 5]"
    )
    here = pathlib.Path(__file__).parent / "conftest.py"
    command = [sys.executable, "-c", script, str(here), *[path for path in sys.path if path]]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _run in range(2)]
    assert [(run.communicate(timeout=60)[1], run.returncode) for run in runs] == [("", 0)] * 2
    assert machine.says() == "2.0 2.0"
    assert not machine.plan("2.0").changed
