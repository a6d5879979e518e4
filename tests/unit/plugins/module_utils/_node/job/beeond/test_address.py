# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the first node is reached, whoever knows it."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.job import OwnFailure
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond.network import address_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.nodes import PLACEHOLDER_ADDRESS

from .conftest import Node

CONF = f"""ClusterName=demo
NodeName=gpu-[0-1] NodeAddr=10.0.0.[5-6] CPUs=96 Feature=beeond
NodeName=gpu-[2-9] NodeAddr={PLACEHOLDER_ADDRESS} State=CLOUD
NodeName=odd NodeAddr=odd.internal
"""


def ask(answers: dict[str, str], node: Node, name: str, **given: str) -> str:
    """The address that is found."""
    node.file("/spool/slurm.conf", CONF)
    return address_of(name, {"SLURM_CONF": "/spool/slurm.conf", **given}, node.root, lambda one: answers.get(one, ""))


def test_what_slurmd_was_told_for_the_job_comes_first(node: Node) -> None:
    aliases = "gpu-1:10.9.9.9:vm-1,gpu-2:[fd00::7]:vm-2"
    assert ask({}, node, "gpu-1", SLURM_NODE_ALIASES=aliases) == "10.9.9.9"
    assert ask({}, node, "gpu-2", SLURM_NODE_ALIASES=aliases) == "fd00::7"


def test_then_slurm_conf(node: Node) -> None:
    assert ask({"gpu-1": "10.1.1.1"}, node, "gpu-1") == "10.0.0.6"
    assert ask({}, node, "odd") == "odd.internal"


def test_a_node_that_joined_by_itself_is_asked_for(node: Node) -> None:
    assert ask({"gpu-2": "10.0.0.42"}, node, "gpu-2") == "10.0.0.42"
    assert ask({"gpu-3": "10.0.0.43"}, node, "gpu-3") == "10.0.0.43"


@pytest.mark.parametrize("answer", ["", PLACEHOLDER_ADDRESS])
def test_an_address_that_nobody_knows_is_no_address(node: Node, answer: str) -> None:
    with pytest.raises(OwnFailure, match="tells the address of node gpu-3"):
        ask({"gpu-3": answer}, node, "gpu-3")
