# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of the role shared_fs: which host exports, and which hosts mount what. No task runs."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError

from .conftest import LOCAL, Evaluate

EXPRESSIONS = {
    **{name: f"{{{{ __shared_fs_{name} }}}}" for name in ("wanted", "packages", "exports_here", "on")},
    "networks": "{{ shared_fs_networks | hpcai.azure.private_networks(shared_fs_allow_public) }}",
}
HOSTS: dict[str, Any] = {
    "all": {
        "vars": LOCAL,
        "children": {
            "hpcai_controller": {"hosts": {"ctl": {"azure_private_ipv4": "10.77.0.4"}}},
            "hpcai_compute": {"hosts": {"node": {"azure_private_ipv4": "10.77.0.6"}}},
        },
    }
}
FACTS = {"os_family": "Debian"}
LUSTRE = {"path": "/lustre", "source": "10.0.1.7@tcp:/fs", "type": "lustre"}
CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "exports": {"shared_fs_exports": [{"path": "/shared"}, {"path": "/apps"}]},
    "elsewhere": {"shared_fs_mounts": [LUSTRE]},
    "by address": {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_server": "10.0.0.4"},
    "without server": {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_server": ""},
}
ByCase = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def by_case(evaluate: Evaluate) -> ByCase:
    """The role's internal variables by case and host."""
    return {
        name: evaluate("hpcai.azure.shared_fs", HOSTS, EXPRESSIONS, ansible_facts=FACTS, **variables)
        for name, variables in CASES.items()
    }


def test_nothing_is_shared_by_default(by_case: ByCase) -> None:
    assert set(by_case["nothing"]) == {"ctl", "node"}
    for values in by_case["nothing"].values():
        assert (values["wanted"], values["packages"], values["exports_here"], values["on"]) == ([], [], False, False)


def test_the_controller_exports_and_the_others_mount(by_case: ByCase) -> None:
    values = by_case["exports"]
    assert values["ctl"]["exports_here"] is True
    assert (values["ctl"]["wanted"], values["ctl"]["packages"]) == ([], ["nfs-kernel-server"])
    assert values["node"]["exports_here"] is False
    assert values["node"]["packages"] == ["nfs-common"]
    assert values["node"]["wanted"] == [
        {"path": "/shared", "source": "10.77.0.4:/shared"},
        {"path": "/apps", "source": "10.77.0.4:/apps"},
    ]
    assert values["ctl"]["networks"] == ["local", "10.77.0.4/32", "10.77.0.6/32"]


def test_external_file_systems_are_mounted_by_all(by_case: ByCase) -> None:
    assert set(by_case["elsewhere"]) == {"ctl", "node"}
    for host in by_case["elsewhere"].values():
        # The client of Lustre is part of the image's kernel.
        assert (host["wanted"], host["packages"], host["on"]) == ([LUSTRE], [], True)


def test_an_image_needs_the_address_of_the_server(by_case: ByCase) -> None:
    assert by_case["by address"]["node"]["wanted"] == [{"path": "/shared", "source": "10.0.0.4:/shared"}]
    assert by_case["without server"]["node"]["wanted"] == []


def test_a_public_network_is_refused(evaluate: Evaluate) -> None:
    public = {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_networks": ["20.0.0.0/8"]}
    with pytest.raises(AnsibleError, match=r"20\.0\.0\.0/8 is not a private network"):
        evaluate("hpcai.azure.shared_fs", HOSTS, EXPRESSIONS, ansible_facts=FACTS, **public)
