# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last lines of `make site`: what its job has kept, from the ledger, and where the console is."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.buckets import ORDER
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Ledger, Work

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]


def test_the_ledger_of_the_job_is_the_line_that_the_readme_shows(tmp_path: pathlib.Path) -> None:
    used = {"kept": 1.2, "starting": 1.2, "idle": 97.6}
    ledger = Ledger(0.0, 100.0)
    ledger.totals = {(node, ""): [used.get(bucket, 0.0) for bucket in ORDER] for node in ("compute-0", "compute-3")}
    ledger.work = {("site", "azureuser"): Work(eligible=10.0, end=12.4, runs=1, nodes=2, seconds={"kept": 1.2})}
    file = tmp_path / "ledger.json"
    file.write_text(json.dumps(output.as_data(ledger, output.Rates())), encoding="utf-8")
    words = [sys.executable, str(REPOSITORY / "tests/site/goodput_line.py"), str(file)]
    line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    expected = (
        "the job kept 1 s, 50% of the time since it could start; 2 nodes in this hour: kept 1.2%, starting 1.2%, "
        "idle 97.6%\n"
    )
    assert line == expected
    assert f"   Goodput:    {line}" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_console_that_is_printed_is_the_one_that_was_opened() -> None:
    script = (REPOSITORY / "tests/setup/site.sh").read_text(encoding="utf-8")
    opened = (REPOSITORY / "tests/site/console.yml").read_text(encoding="utf-8")
    url = "http://127.0.0.1:9090/consoles/hpcai.html"
    assert f"   Console:    {url} " in script
    assert f"url: {url}\n" in opened
    assert " -N -L 9090:127.0.0.1:9090 azureuser@$controller\n" in script
