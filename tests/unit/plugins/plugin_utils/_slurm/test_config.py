# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mappings as the text of Slurm's configuration files."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError, render, render_line


def test_one_line_a_key_in_the_mappings_order() -> None:
    assert render({"ClusterName": "sim", "ReturnToService": 2, "AuthType": "auth/munge"}) == (
        "ClusterName=sim\nReturnToService=2\nAuthType=auth/munge\n"
    )


def test_a_node_is_one_line_of_words() -> None:
    line = {"NodeName": "compute-[0,3]", "CPUs": 96, "Feature": ["a", "b"], "Gres": None, "State": "UNKNOWN"}
    assert render_line(line) == "NodeName=compute-[0,3] CPUs=96 Feature=a,b State=UNKNOWN"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "YES"),
        (False, "NO"),
        (0, "0"),
        (2, "2"),
        (0.5, "0.5"),
        ("", ""),
        (["task/affinity", "task/cgroup"], "task/affinity,task/cgroup"),
        (("a", 1, True), "a,1,YES"),
        ("/usr/bin/nhc", "/usr/bin/nhc"),
        (r"with \# sign", '"with \\# sign"'),
        ("two words", '"two words"'),
        ("a\ttab", '"a\ttab"'),
        ('"quoted already"', '"quoted already"'),
    ],
)
def test_values_are_written_as_slurm_reads_them(value: Any, text: str) -> None:
    assert render({"Key": value}) == f"Key={text}\n"
    assert render_line({"Key": value}) == f"Key={text}"


@pytest.mark.parametrize("absent", [None, [], ()])
def test_null_and_the_empty_list_leave_a_key_out(absent: Any) -> None:
    assert render({"A": 1, "Key": absent, "B": 2}) == "A=1\nB=2\n"
    assert render_line({"A": 1, "Key": absent, "B": 2}) == "A=1 B=2"
    assert render({"Key": absent}) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x\nPrologSlurmctld=/tmp/evil", "holds a line break"),
        ("x\rPrologSlurmctld=/tmp/evil", "holds a line break"),
        (["a", "b\n"], "holds a line break"),
        ("a#b", "holds a '#'"),
        ("# all of it", "holds a '#'"),
        ({"a": 1}, "is a mapping"),
        (["a", {"b": 1}], "is a mapping"),
    ],
)
def test_what_slurm_would_read_as_something_else_is_refused_by_its_key(value: Any, words: str) -> None:
    for rendering in (render, render_line):
        with pytest.raises(ConfigError, match=rf"^SlurmctldParameters {words}"):
            rendering({"ClusterName": "sim", "SlurmctldParameters": value})
