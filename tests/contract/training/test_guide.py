# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide to trainings: hpcnode understands its commands, and its first training has the report that it shows."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import all_commands, build_parser
from simulated.cluster import REPOSITORY

from .conftest import FILES, framework_job

GUIDE = (REPOSITORY / "docs/docsite/rst/guide_training.rst").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    \$ (hpcnode .+)$", GUIDE.replace("\\\n", " "), re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_hpcnode_understands_the_commands_of_the_guide(command: str) -> None:
    words = shlex.split(command.partition(" > ")[0])
    args = build_parser(all_commands()).parse_args(words[1:])
    assert args.action in words


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_first_training_has_the_report_of_the_guide(tmp_path: pathlib.Path) -> None:
    job = framework_job(tmp_path, "bert-ddp")
    job.render()
    status, output = job.finish(job.start())
    assert status == 0, output
    words = ["hpcnode", "train", "report", job.job_folder.name, "--recipes", str(FILES)]
    done = subprocess.run(words, cwd=tmp_path, env=job.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.search(r"^    \$ hpcnode train report bert-ddp-tiny-42\n((?:    .+\n)+)", GUIDE, re.M)
    assert shown is not None
    # Times depend on the machine, and on a busy one a node may be reported as slow.
    made, printed = (re.sub(r"\b[\d,.]+(?= (s|samples/s)\b|%)", "N", text) for text in (done.stdout, shown[1]))
    assert {line[4:] for line in printed.splitlines()} <= set(made.splitlines())
