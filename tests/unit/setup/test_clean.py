# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make clean` removes every environment that the commands create, and no source files."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SETUP = ("tests/setup/steps.py", "tests/setup/venv.sh", "tests/benchmarks/run.sh")


def test_clean_removes_every_environment_and_nothing_else(tmp_path: pathlib.Path) -> None:
    texts = [(REPOSITORY / name).read_text(encoding="utf-8") for name in SETUP]
    environments = {name for text in texts for name in re.findall(r"\.venv(?:-[a-z]+)?\b", text)}
    assert {".venv", ".venv-bench"} <= environments
    for name in (*environments, "tests", ".simulator"):
        (tmp_path / name).mkdir()
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "tests", ".simulator"}
