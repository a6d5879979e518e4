# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""retire.yml removes nothing if the inventory may be incomplete, and contacts no host before it has checked this."""

from __future__ import annotations

import pathlib
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

AnsiblePlaybook = Callable[..., subprocess.CompletedProcess[str]]


def inventory(**changes: Any) -> dict[str, Any]:
    """A cluster of two nodes as the inventory plugin describes it, with these changes."""
    source = {
        "source": "azure_vmss.yml",
        "scope": {"subscription_ids": ["s"], "resource_groups": ["hpcai"], "scale_sets": []},
        "complete": True,
        "from_cache": False,
        "age_seconds": 0,
        "errors": [],
        "scale_sets": [],
        "virtual_networks": [],
    }
    return {
        "all": {
            "children": {
                "hpcai_controller": {"hosts": {"ctl": None}},
                "hpcai_compute": {"hosts": {"compute-0": None, "compute-1": None}},
            },
            "vars": {
                "hpcai_connect_timeout": 1,
                "azure_inventory": {"version": 1, "complete": True, "sources": [{**source, **changes}]},
            },
        }
    }


@pytest.mark.parametrize(
    ("changes", "arguments", "words"),
    [
        ({"complete": False, "errors": ["403 on compute"]}, (), "is partial (403 on compute)"),
        ({"from_cache": True, "age_seconds": 60}, (), "is 60 s old, from the cache"),
        ({}, ("--limit", "ctl"), "run this without --limit"),
        ({}, ("--limit", "localhost,compute-0"), "run this without --limit"),
    ],
)
def test_an_incomplete_inventory_removes_nothing(
    tmp_path: pathlib.Path,
    ansible_playbook: AnsiblePlaybook,
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch '{tmp_path}/contacted'\nexit 255\n", encoding="utf-8")
    ssh.chmod(stat.S_IRWXU)
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory(**changes)), encoding="utf-8")
    options = ("-i", "hosts.yml", "-e", "retire=compute-0", *arguments)

    done = ansible_playbook(tmp_path, "hpcai.azure.retire", *options, ANSIBLE_SSH_EXECUTABLE=str(ssh))

    assert done.returncode != 0
    assert words in " ".join(done.stdout.split())
    assert not (tmp_path / "contacted").exists()
