# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""training_check.yml with stand-ins for hpcnode and sbatch: the words that they get, and what the run reports."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]
HPCNODE = """\
#!/bin/sh
printf '%s\\n' "$*" >>{folder}/words
case $2 in
  script) printf '#!/bin/bash\\ntrue\\n' ;;
  report) [ -e {folder}/seen ] && echo "steps 20, loss 5.9" || exit 2 ;;
esac
"""
SBATCH = """\
#!/bin/sh
pwd >{folder}/where
cat >{folder}/script
echo 42
exit {status}
"""


@pytest.fixture
def play(tmp_path: pathlib.Path, ansible_playbook: AnsiblePlaybook) -> Callable[..., Any]:
    """Run the playbook on a controller, where a job ends with a status."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "jobs").mkdir()
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    groups = {"hpcai_controller": {"hosts": {"ctl": here}}, "hpcai_compute": {"hosts": {"n-0": here, "n-1": here}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}), encoding="utf-8")

    def run(
        *arguments: str, status: int = 0, playbook: str = "training_check", **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        for name, text in (("hpcnode", HPCNODE), ("sbatch", SBATCH)):
            (programs / name).write_text(text.format(folder=tmp_path, status=status), encoding="utf-8")
            (programs / name).chmod(0o700)
        given = {"training_check_python": "/env/python", "training_check_folder": str(tmp_path / "jobs"), **variables}
        words = ("-i", "hosts.yml", f"hpcai.azure.{playbook}", "-e", json.dumps(given), *arguments)
        return ansible_playbook(tmp_path, *words, PATH=f"{programs}:{os.environ['PATH']}")

    return run


def test_a_training_that_finished_shows_its_report(play: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "seen").touch()
    done = play(training_check_recipe="cosmoflow", training_check_run="/x/run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps 20, loss 5.9" in done.stdout
    assert (tmp_path / "words").read_text().splitlines() == [
        "train script cosmoflow --python /env/python --nodes 2 --run /x/run",
        "train report cosmoflow-tiny-42",
    ]
    assert (tmp_path / "script").read_text().startswith("#!/bin/bash\ntrue")
    assert (tmp_path / "where").read_text().strip() == str(tmp_path / "jobs")


@pytest.mark.thorough
def test_a_folder_that_this_machine_does_not_see_has_no_report(play: Callable[..., Any]) -> None:
    done = play()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The training finished. Its report is at the end of its log." in done.stdout


@pytest.mark.thorough
def test_a_failed_training_fails_the_run_and_names_its_log(play: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    done = play(status=1, training_check_nodes=3)
    assert done.returncode == 2, done.stdout
    shown = " ".join(done.stdout.split())
    assert "The training did not finish (exit status 1)." in shown
    assert f"See bert-ddp-tiny-42.log in {tmp_path / 'jobs'}." in shown
    assert "--nodes 3" in (tmp_path / "words").read_text()


@pytest.mark.thorough
def test_a_run_without_an_interpreter_starts_no_job(play: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    done = play(training_check_python="")
    assert done.returncode == 2
    assert "Set training_check_python" in done.stdout
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize("playbook", ["training_check", "container_check"])
def test_check_mode_does_not_say_that_it_works(play: Callable[..., Any], tmp_path: pathlib.Path, playbook: str) -> None:
    done = play("--check", playbook=playbook, container_check_image="docker://alpine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Check mode: nothing was started" in done.stdout
    assert not (tmp_path / "words").exists()
