# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check notices steps that ran on the host, and steps that did not answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.containers import job_check

HOST = {"compute-0": job_check.StepFacts("mnt:[1]", 'ID=debian\nPRETTY_NAME="Debian 12"')}


def test_another_os_release_and_mount_namespace_pass() -> None:
    assert job_check.judge(HOST, {"compute-0": job_check.StepFacts("mnt:[2]", "ID=alpine")}) == []


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"compute-0": HOST["compute-0"]}, "compute-0: the step ran on the host, not in the container"),
        ({"compute-0": job_check.StepFacts("mnt:[1]", "ID=alpine")}, "its mount namespace is the host's"),
        ({"compute-0": job_check.StepFacts("mnt:[2]", HOST["compute-0"].release)}, "the host's os-release (Debian 12)"),
        ({}, "compute-0: the step in the container did not answer"),
    ],
)
def test_a_step_outside_a_container_is_reported(container: dict[str, job_check.StepFacts], words: str) -> None:
    (problem,) = job_check.judge(HOST, container)
    assert words in problem


def test_no_answer_at_all_is_a_problem() -> None:
    assert job_check.judge({}, {}) == ["no node answered"]


def test_the_answers_of_several_nodes_are_separated() -> None:
    asked = []

    def run(command: Sequence[str]) -> Result:
        asked.append(list(command))
        lines = "0: compute-0\n1: compute-3\n1: mnt:[4]\n0: mnt:[3]\n0: ID=a\n1: ID=b\n1: \n1: X=1\n"
        return Result(tuple(command), 0, lines, "")

    sides, said = job_check.probe("/img.sqsh", run)
    assert said == ""
    assert sides == {
        "compute-0": job_check.StepFacts("mnt:[3]", "ID=a"),
        "compute-3": job_check.StepFacts("mnt:[4]", "ID=b\n\nX=1"),
    }
    assert "--container-image=/img.sqsh" in asked[0]
    job_check.probe(None, run)
    assert not [word for word in asked[1] if word.startswith("--container")]


def test_sruns_error_about_an_image_is_passed_on() -> None:
    stderr = "pyxis: No such file or directory: /no.sqsh\nsrun: error: task 0: Exited\n"
    assert job_check.probe("/no.sqsh", lambda command: Result(tuple(command), 1, "", stderr)) == (
        {},
        stderr.splitlines()[0],
    )
