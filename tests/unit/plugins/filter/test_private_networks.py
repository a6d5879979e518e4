# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter private_networks, in templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.errors import AnsibleError

from ansible_collections.hpcai.azure.plugins.filter import private_networks
from ansible_collections.hpcai.azure.plugins.module_utils._node.setup.shared_fs import exports

Render = Callable[..., Any]


def test_merges_networks_and_passes_on_local(render: Render) -> None:
    names = ["10.0.0.5", "local", "10.0.0.4", "10.1.0.7/24"]
    shown = render("names | hpcai.azure.private_networks", names=names)
    assert shown == ["local", "10.0.0.4/31", "10.1.0.0/24"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("0.0.0.0/0", "0.0.0.0/0 matches every client"),
        ("20.0.0.0/8", "20.0.0.0/8 is not a private network"),
        ("nowhere", "'nowhere' is not a network"),
    ],
)
def test_refuses_networks_that_are_not_private_and_names_them(render: Render, name: str, words: str) -> None:
    with pytest.raises(AnsibleError, match=words):
        render("names | hpcai.azure.private_networks", names=["10.0.0.4", name])


def test_accepts_public_networks_on_request_but_never_all_clients(render: Render) -> None:
    assert render("['20.0.0.0/8'] | hpcai.azure.private_networks(true)") == ["20.0.0.0/8"]
    with pytest.raises(AnsibleError, match="every client"):
        render("['::/0'] | hpcai.azure.private_networks(true)")


def test_a_text_instead_of_a_list_is_refused(render: Render) -> None:
    with pytest.raises(AnsibleError, match="takes a list"):
        render("'10.0.0.0/24' | hpcai.azure.private_networks")


def test_the_controller_and_the_node_agree_on_private_networks() -> None:
    assert tuple(map(str, exports.PRIVATE)) == private_networks.PRIVATE
