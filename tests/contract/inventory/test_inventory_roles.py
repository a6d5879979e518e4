# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM in another resource group, tagged as controller and login node, gets no role in any playbook."""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import Any

import pytest

from .clusters import CLUSTER, COMPUTE, TAGS
from .reading import Finished, Source, ansible, failure, members

ATTACKER = "attacker"


@pytest.fixture
def attacked(simulate: Callable[..., Source]) -> Source:
    """The cluster in hpcai-sim, and an attacker's VM and scale set in lab with the cluster's tags."""
    vm = {
        "name": ATTACKER,
        "resource_group": "lab",
        "tags": {**TAGS, "hpcai_role": "controller,login"},
    }
    nodes = {
        "name": "compute",
        "resource_group": "lab",
        "capacity": 1,
        "computer_name_prefix": "theirs",
        "tags": COMPUTE,
    }
    return simulate(
        {
            "virtual_machines": [*CLUSTER["virtual_machines"], vm],
            "scale_sets": [*CLUSTER["scale_sets"], nodes],
        }
    )


def run_site(source: Source, **options: Any) -> tuple[Finished, bool]:
    """Run site.yml on the source; returns its result, and whether it contacted any host."""
    source.write(include_vms="tagged", tags=TAGS, **options)
    folder = source.path.parent
    ssh = folder / "ssh"
    ssh.write_text(f"#!/bin/sh\ntouch '{folder}/contacted'\nexit 255\n", encoding="utf-8")
    ssh.chmod(stat.S_IRWXU)
    done = ansible(
        "ansible-playbook",
        *("-i", source.path, "hpcai.azure.site", "-e", "hpcai_connect_timeout=1"),
        cwd=folder,
        env={"ANSIBLE_SSH_EXECUTABLE": str(ssh)},
    )
    return done, (folder / "contacted").exists()


def test_with_resource_groups_the_attacker_is_not_in_the_inventory(attacked: Source) -> None:
    inventory = attacked.read(include_vms="tagged", tags=TAGS, resource_groups=["hpcai-sim"])

    assert members(inventory, "hpcai_controller") == {"ctl"}
    assert members(inventory, "hpcai_login") == {"ctl"}
    assert len(members(inventory, "hpcai_compute")) == 5
    done, contacted = run_site(attacked, resource_groups=["hpcai-sim"])
    assert contacted, done.stdout + done.stderr
    assert ATTACKER not in done.stdout


def test_an_inventory_without_resource_groups_is_refused_with_advice(attacked: Source) -> None:
    done, contacted = run_site(attacked)

    assert not contacted
    assert done.returncode != 0
    assert "resource_groups: [hpcai-sim, lab]" in done.stdout
    assert f"lab: {ATTACKER}" in done.stdout, done.stdout


def test_names_of_scale_sets_without_resource_group_are_refused(attacked: Source) -> None:
    done, contacted = run_site(attacked, scale_sets=["compute", "flex"])

    assert not contacted
    assert "names no resource group" in done.stdout


def test_a_host_outside_of_the_given_scale_sets_is_refused_and_named(attacked: Source) -> None:
    done, contacted = run_site(attacked, scale_sets=["hpcai-sim/*"])

    assert not contacted
    assert (
        f"Host {ATTACKER} is in the group hpcai_controller and hpcai_login, but belongs to resource group lab"
        in done.stdout
    )
    assert "theirs" not in done.stdout


def test_a_scale_set_can_be_selected_with_its_resource_group(attacked: Source) -> None:
    inventory = attacked.read(scale_sets=["HPCAI-sim/compute"])

    assert members(inventory, "hpcai_compute") == {"compute000000", "compute000003", "compute00000H"}


@pytest.mark.parametrize("pattern", ["*/compute", "/compute", "hpcai-sim/", "a/b/c"])
def test_an_invalid_pattern_of_a_scale_set_is_refused(source: Source, pattern: str) -> None:
    assert f"scale_sets: '{pattern}' is neither NAME nor RESOURCE-GROUP/NAME" in failure(source, scale_sets=[pattern])
