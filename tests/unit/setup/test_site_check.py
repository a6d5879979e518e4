# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of `make site`, with a site.sh that only prints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "setup/site_check.sh"
UP = """== 4/12 provision  [1 s]
localhost : ok=3 changed={provision} unreachable=0
== 5/12 grow  [2 s]
== 6/12 site  [3 s]
ctl : ok=60 changed={site} unreachable=0
== 7/12 job  [4 s]
login : ok=2 changed=1 unreachable=0
"""


def run(folder: Path, *, running: bool = False, provision: int = 0, site: int = 0, down: str = "") -> tuple[int, str]:
    """Run the check; returns its status, and how site.sh was called."""
    files = {
        "tests/setup/site.sh": f"""#!/bin/sh
echo "$1" >> calls
[ "$1" = up ] || {{ echo "{down}" >&2; exit 0; }}
# The first run changes everything.
if [ "$(grep -c up calls)" = 1 ]; then echo "{UP.format(provision=1, site=9)}"; exit; fi
echo "{UP.format(provision=provision, site=site)}"
""",
        ".venv/bin/python": f"#!/bin/sh\necho '{'site' if running else 'other'}  up  8474'\n",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(content, encoding="utf-8")
        path.chmod(0o755)
    shutil.copy(SCRIPT, folder / "tests/setup")
    done = subprocess.run([folder / "tests/setup" / SCRIPT.name], check=False, capture_output=True, timeout=60)
    calls = folder / "calls"
    return done.returncode, calls.read_text(encoding="utf-8").replace("\n", " ") if calls.exists() else ""


def test_passes_if_the_second_run_changes_nothing(tmp_path: Path) -> None:
    assert run(tmp_path) == (0, "up up down ")


@pytest.mark.parametrize("changes", [{"provision": 1}, {"site": 2}])
def test_fails_if_the_second_run_changes_something_and_removes_the_site(
    tmp_path: Path, changes: dict[str, int]
) -> None:
    assert run(tmp_path, provision=changes.get("provision", 0), site=changes.get("site", 0)) == (1, "up up down ")


def test_fails_if_the_teardown_fails(tmp_path: Path) -> None:
    assert run(tmp_path, down="teardown.yml failed, see its message above.")[0] == 1


def test_leaves_a_site_that_runs_already_alone(tmp_path: Path) -> None:
    assert run(tmp_path, running=True) == (77, "")
