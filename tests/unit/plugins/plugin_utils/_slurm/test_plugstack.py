# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of plugstack.conf."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.config import ConfigError
from ansible_collections.hpcai.azure.plugins.plugin_utils._slurm.plugstack import plugstack_lines

PYXIS = "/usr/lib/hpcai/pyxis/spank_pyxis.so"
ROLE = [f"required {PYXIS} runtime_path=/scratch/pyxis"]


def test_the_roles_lines_come_first_as_they_are() -> None:
    assert plugstack_lines(ROLE, {}) == ROLE
    assert plugstack_lines([], {}) == []
    own = {"/opt/a.so": {"args": ["x=1", 2]}, "/opt/b.so": {"required": False}}
    assert plugstack_lines(ROLE, own) == [*ROLE, "required /opt/a.so x=1 2", "optional /opt/b.so"]


def test_a_plugin_of_the_role_can_be_replaced_and_left_out() -> None:
    assert plugstack_lines(ROLE, {PYXIS: {"args": "runtime_path=/x"}}) == [f"required {PYXIS} runtime_path=/x"]
    assert plugstack_lines(ROLE, {PYXIS: None}) == []


@pytest.mark.parametrize(
    ("of_role", "by_hand", "words"),
    [
        ([], {"/a.so": "required"}, r"slurm_plugstack\['/a.so'\] must be null, or a mapping"),
        ([], {"/a.so": {"arguments": []}}, r"slurm_plugstack\['/a.so'\] must be null, or a mapping"),
        # Slurm would not send what it includes to the nodes.
        ([], {"plugstack.conf.d/*": {}}, "must be the whole path of a plugin"),
        ([], {"/a.so": {"args": ["x\nrequired /evil.so"]}}, "must be the whole path of a plugin .*, on one line"),
        (["include /etc/slurm/plugstack.conf.d/*"], {}, "must be 'required' or 'optional'"),
    ],
)
def test_refuses_what_is_no_plugin(of_role: list[str], by_hand: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plugstack_lines(of_role, by_hand)
