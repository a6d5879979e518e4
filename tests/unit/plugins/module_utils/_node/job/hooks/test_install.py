# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installing and removing scripts."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.install import (
    HookError,
    Plan,
    apply,
    plan,
    scripts_from,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.hooks.options import read_settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

from .conftest import Node

GPU: dict[str, Any] = {"content": "#!/bin/sh\necho gpu\n", "limit": 9}
NOTE: dict[str, Any] = {"content": "#!/bin/sh\necho note"}
GPU_PATH = "/etc/hpcai/prolog.d/50-gpu"


def planned(node: Node, named: str = "site", limits: dict[str, Any] | None = None, **kinds: Any) -> Plan:
    """Plan the installation of a set."""
    return plan(node.root, named, {kind: scripts_from(kind, kinds.get(kind, {})) for kind in kinds}, limits)


def install(node: Node, named: str = "site", limits: dict[str, Any] | None = None, **kinds: Any) -> Plan:
    """Plan the installation of a set and apply it."""
    made = planned(node, named, limits, **kinds)
    apply(node.root, made)
    return made


def test_a_first_run_installs_everything_and_a_second_changes_nothing(node: Node) -> None:
    foreseen = planned(node, prolog={"50-gpu": GPU}, epilog={"90-note": NOTE})
    assert not node.path("/etc").exists()
    done = install(node, prolog={"50-gpu": GPU}, epilog={"90-note": NOTE})
    assert done == foreseen
    assert done.actions[0] == "make /etc/hpcai/prolog.d"
    script = node.path(GPU_PATH)
    assert (script.read_text(), script.stat().st_mode & 0o7777) == (GPU["content"], 0o755)
    # A missing line feed at the end is added.
    assert node.path("/etc/hpcai/epilog.d/90-note").read_text().endswith("note\n")
    assert read_settings(node.root).limit_of("prolog", "50-gpu") == 9
    assert planned(node, prolog={"50-gpu": GPU}, epilog={"90-note": NOTE}).actions == []
    assert [one.name for one in node.run().runs] == ["50-gpu"]


def test_only_scripts_that_the_set_no_longer_names_are_removed(node: Node) -> None:
    install(node, "beeond", prolog={"30-mount": NOTE})
    install(node, prolog={"50-gpu": GPU, "60-note": NOTE})
    other = node.script("70-admin", "true")
    first, *_rest = install(node, prolog={"60-note": NOTE}).files
    assert (first.path, first.after) == (node.root.at(GPU_PATH), None)
    assert sorted(path.name for path in other.parent.iterdir()) == ["30-mount", "60-note", "70-admin"]
    install(node)
    assert sorted(path.name for path in other.parent.iterdir()) == ["30-mount", "70-admin"]
    assert list(read_settings(node.root).sets) == ["beeond"]


def test_a_machine_without_scripts_has_nothing_to_remove(node: Node) -> None:
    assert install(node) == Plan((), ())
    assert not node.path("/etc").exists()


def test_manual_changes_of_a_script_are_reverted(node: Node) -> None:
    install(node, prolog={"50-gpu": GPU})
    script = node.path(GPU_PATH)
    script.chmod(0o777)
    assert planned(node, prolog={"50-gpu": GPU}).actions == [f"write {script}"]
    script.unlink()
    elsewhere = node.file("/elsewhere", "precious")
    script.symlink_to(elsewhere)
    install(node, prolog={"50-gpu": GPU})
    assert (script.is_symlink(), script.read_text()) == (False, GPU["content"])
    assert elsewhere.read_text() == "precious"


def test_a_foreign_script_of_the_same_name_is_not_overwritten(node: Node) -> None:
    theirs = node.script("50-gpu", "their own")
    with pytest.raises(HookError, match="50-gpu exists and is not of this set"):
        planned(node, prolog={"50-gpu": GPU})
    # An interrupted run leaves the same text, which is accepted.
    theirs.write_text(GPU["content"])
    assert [file.path for file in planned(node, prolog={"50-gpu": GPU}).files] == [
        node.root.at("/etc/hpcai/job_hooks.json")
    ]
    theirs.unlink()
    os.mkdir(theirs)
    with pytest.raises(HookError, match="is not a regular file"):
        planned(node, prolog={"50-gpu": GPU})


def test_two_sets_cannot_use_the_same_name(node: Node) -> None:
    install(node, "beeond", prolog={"50-gpu": GPU})
    with pytest.raises(HookError, match="prolog script 50-gpu belongs to the set beeond"):
        planned(node, prolog={"50-gpu": GPU})
    # A script of another kind can have the same name.
    install(node, epilog={"50-gpu": GPU})


def test_limits_are_kept_until_others_are_given(node: Node) -> None:
    install(node, limits={"prolog": {"total": 300}})
    install(node, "beeond", prolog={"30-mount": NOTE})
    assert read_settings(node.root).limits["prolog"].total == 300
    install(node, limits={})
    assert read_settings(node.root).limits["prolog"].total == 100
    with pytest.raises(ConfigError, match=r"limits\.prolog\.total must be"):
        planned(node, limits={"prolog": {"total": "long"}})


def test_invalid_settings_are_rewritten_with_a_warning(node: Node) -> None:
    install(node, prolog={"50-gpu": GPU})
    node.file("/etc/hpcai/job_hooks.json", "{")
    made = install(node, prolog={"50-gpu": GPU})
    assert "is rewritten" in made.warnings[0]
    assert planned(node, prolog={"50-gpu": GPU}).actions == []


def test_null_removes_a_script(node: Node) -> None:
    assert scripts_from("prolog", {"50-gpu": None}) == {}
    install(node, prolog={"50-gpu": GPU})
    install(node, prolog={"50-gpu": None})
    assert not node.path(GPU_PATH).exists()


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("gpu", GPU, "a key of prolog must be two digits .*, not 'gpu'"),
        ("50-../x", GPU, "a key of prolog must be two digits"),
        ("50-gpu", "#!/bin/sh", "must be a mapping with keys of content, limit"),
        ("50-gpu", {**GPU, "timeout": 3}, "prolog.50-gpu has unknown keys timeout"),
        ("50-gpu", {"limit": 3}, "prolog.50-gpu lacks content"),
        ("50-gpu", {"content": "echo"}, "content must be a script that begins with"),
        ("50-gpu", {**GPU, "limit": "x"}, "prolog.50-gpu.limit must be a number"),
    ],
)
def test_an_invalid_script_is_refused_and_named(name: str, given: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        scripts_from("prolog", {name: given})
