# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role shared_fs makes of its variables: who exports, and who mounts what."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError

from .conftest import LOCAL, Show

SHOWN = {
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
    "by nobody": {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_server": ""},
}
Made = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def made(show: Show) -> Made:
    """What each host makes of each case's variables."""
    return {
        name: show("hpcai.azure.shared_fs", HOSTS, SHOWN, ansible_facts=FACTS, **variables)
        for name, variables in CASES.items()
    }


def test_nothing_is_shared_unless_it_is_asked_for(made: Made) -> None:
    assert set(made["nothing"]) == {"ctl", "node"}
    for shown in made["nothing"].values():
        assert (shown["wanted"], shown["packages"], shown["exports_here"], shown["on"]) == ([], [], False, False)


def test_what_the_controller_exports_the_others_mount(made: Made) -> None:
    shown = made["exports"]
    assert shown["ctl"]["exports_here"] is True
    assert (shown["ctl"]["wanted"], shown["ctl"]["packages"]) == ([], ["nfs-kernel-server"])
    assert shown["node"]["exports_here"] is False
    assert shown["node"]["packages"] == ["nfs-common"]
    assert shown["node"]["wanted"] == [
        {"path": "/shared", "source": "10.77.0.4:/shared"},
        {"path": "/apps", "source": "10.77.0.4:/apps"},
    ]
    assert shown["ctl"]["networks"] == ["local", "10.77.0.4/32", "10.77.0.6/32"]


def test_what_is_served_elsewhere_is_mounted_by_all(made: Made) -> None:
    assert set(made["elsewhere"]) == {"ctl", "node"}
    for host in made["elsewhere"].values():
        # Lustre's client belongs to the kernel of the image.
        assert (host["wanted"], host["packages"], host["on"]) == ([LUSTRE], [], True)


def test_an_image_knows_a_server_by_its_address(made: Made) -> None:
    assert made["by address"]["node"]["wanted"] == [{"path": "/shared", "source": "10.0.0.4:/shared"}]
    assert made["by nobody"]["node"]["wanted"] == []


def test_a_public_network_stops_the_run_before_any_host_is_touched(show: Show) -> None:
    public = {"shared_fs_exports": [{"path": "/shared"}], "shared_fs_networks": ["20.0.0.0/8"]}
    with pytest.raises(AnsibleError, match=r"20\.0\.0\.0/8 is not a private network"):
        show("hpcai.azure.shared_fs", HOSTS, SHOWN, ansible_facts=FACTS, **public)
