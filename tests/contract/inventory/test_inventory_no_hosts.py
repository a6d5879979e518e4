# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source without hosts, or with an unknown option: the message says which value to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .clusters import TAGS
from .reading import Source, failure


@pytest.mark.parametrize(
    ("option", "nearest"),
    [("tagz", "tags"), ("resource_group", "resource_groups"), ("includevms", "include_vms"), ("Tags", "tags")],
)
def test_an_unknown_option_is_refused_with_the_most_similar_one(source: Source, option: str, nearest: str) -> None:
    error = failure(source, **{option: {"hpcai_cluster": "sim"}})

    assert error.endswith(f"there is no option {option}; the most similar one is {nearest}.")
    assert source.simulator.requests() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"tags": {"hpcai_cluster": "sin"}},
            "Values found there: tag hpcai_cluster: sim. Stand-alone VMs are not listed",
        ),
        ({"tags": {"hpcai_clutser": "sim"}}, "tag hpcai_clutser: (no such tag)"),
        ({"scale_sets": ["compote"]}, "Values found there: scale_sets: compute, flex."),
        ({"locations": ["westus"]}, "Values found there: locations: southcentralus."),
        (
            {"include_vms": "tagged", "role_tag": "role", "tags": {"hpcai_cluster": "x"}},
            "Values found there: tag hpcai_cluster: sim; tag role: (no such tag).",
        ),
        ({"query": "azure_zone == '9'"}, "Azure has 5 such instances, but the option query excludes all of them."),
    ],
)
def test_no_host_is_a_warning_that_lists_existing_values(
    source: Source, capsys: pytest.CaptureFixture[str], options: dict[str, Any], words: str
) -> None:
    inventory = source.read(**options)

    output = " ".join(capsys.readouterr().err.split())
    assert not inventory.hosts
    assert "[WARNING]" in output
    assert "no host was found" in output
    assert words in output


def test_there_is_no_such_warning_if_hosts_are_found(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.read(tags=TAGS)

    assert "no host" not in capsys.readouterr().err


@pytest.mark.parametrize("plugin", [{}, {"cache_plugin": "ansible.builtin.memory"}])
def test_a_cache_that_is_not_persistent_is_a_warning(
    source: Source, capsys: pytest.CaptureFixture[str], plugin: dict[str, Any]
) -> None:
    source.read(cache=True, **plugin)

    assert "cache: true has no effect, because cache_plugin is" in " ".join(capsys.readouterr().err.split())


def test_a_persistent_cache_is_no_warning(source: Source, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source.read(cache=True, cache_plugin="ansible.builtin.jsonfile", cache_connection=str(tmp_path / "cache"))

    assert "has no effect" not in capsys.readouterr().err
