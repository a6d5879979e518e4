# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long `make site` will take, by the last time."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "setup/estimate.sh"


def estimate(cache: pathlib.Path, *words: str) -> str:
    """Call the script with a cache of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run([SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def test_before_the_first_time_there_is_no_estimate(tmp_path: pathlib.Path) -> None:
    assert estimate(tmp_path, "show", "site-new-trixie") == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("1", "about 1 s\n"),
        ("89", "about 89 s\n"),
        ("90", "about 2 min\n"),
        ("216", "about 4 min\n"),
        ("774", "about 13 min\n"),
    ],
)
def test_the_last_time_is_the_next_estimate(tmp_path: pathlib.Path, seconds: str, words: str) -> None:
    estimate(tmp_path, "save", "site-new-trixie", "5000")
    estimate(tmp_path, "save", "site-new-trixie", seconds)
    assert estimate(tmp_path, "show", "site-new-trixie") == words
    assert estimate(tmp_path, "show", "site-again-trixie") == ""


@pytest.mark.parametrize("text", ["", "soon", "-3", "0", "12 13", "1" * 30, "08x"])
def test_a_damaged_record_is_no_estimate(tmp_path: pathlib.Path, text: str) -> None:
    estimate(tmp_path, "save", "site-new-trixie", "5")
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_text(text, encoding="ascii")
    assert estimate(tmp_path, "show", "site-new-trixie") == ""
