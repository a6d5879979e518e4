# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Grants: the settings, the groups, the decision, and the limits of each user."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import checked
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.policy import (
    FORM,
    NotGranted,
    decide,
    decide_registry,
    granted,
    groups_of,
    user_of,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.grants.server import Bounds
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError

ACCOUNT = "https://training.blob.core.windows.net"
DATA = {"groups": ["research", "guests"], "account_url": ACCOUNT, "container": "data", "rights": "read"}
RUNS = {"groups": ["research"], "account_url": f"{ACCOUNT}/", "container": "runs", "rights": "write"}
ADMINS_GRANT = {"groups": ["admins"], "account_url": ACCOUNT, "container": "runs", "rights": "delete"}
GRANTS = checked(FORM, {"grants": [DATA, RUNS, ADMINS_GRANT]}, "grants.json").grants


@pytest.mark.parametrize(
    ("groups", "container", "need", "is_granted"),
    [
        ({"guests"}, "data", "read", True),
        ({"guests"}, "data", "write", False),
        ({"guests"}, "runs", "read", False),
        ({"research"}, "runs", "read", True),
        ({"research"}, "runs", "write", True),
        ({"research"}, "runs", "delete", False),
        ({"research", "admins"}, "runs", "delete", True),
        ({"admins"}, "data", "read", False),
        (set(), "data", "read", False),
        ({"research"}, "data/set", "read", False),
        ({"research"}, "dat", "read", False),
        ({"research"}, "../data", "read", False),
    ],
)
def test_a_group_gets_what_it_is_granted_and_nothing_else(
    groups: set[str], container: str, need: str, is_granted: bool
) -> None:
    if is_granted:
        assert decide(GRANTS, groups, f"{ACCOUNT}/{container}", need).container == container
        return
    with pytest.raises(NotGranted):
        decide(GRANTS, groups, f"{ACCOUNT}/{container}", need)


def test_a_refusal_does_not_say_whether_a_container_exists() -> None:
    messages = set()
    for container in ("runs", "nothing"):
        with pytest.raises(NotGranted) as refused:
            decide(GRANTS, {"guests"}, f"{ACCOUNT}/{container}", "read")
        messages.add(str(refused.value))
    assert len(messages) == 1


def test_a_grant_is_valid_for_its_account_only() -> None:
    with pytest.raises(NotGranted):
        decide(GRANTS, {"research"}, "https://other.blob.core.windows.net/data", "read")
    assert decide(GRANTS, {"research"}, f"{ACCOUNT.upper()}/DATA/", "read") == GRANTS[0]
    assert [one.container for one in granted(GRANTS, {"research"})] == ["data", "runs"]


def test_registries_are_granted_to_all_users_or_to_groups() -> None:
    listed, groups = (
        ["all.azurecr.io", "some.azurecr.io", "none.azurecr.io"],
        {
            "some.azurecr.io": ["research"],
            "none.azurecr.io": [],
        },
    )
    assert decide_registry(listed, groups, set(), "ALL.azurecr.io") == "all.azurecr.io"
    assert decide_registry(listed, groups, {"research"}, "some.azurecr.io") == "some.azurecr.io"
    for name, users_groups in (("some", {"guests"}), ("none", {"research"}), ("other", {"research"})):
        with pytest.raises(NotGranted):
            decide_registry(listed, groups, users_groups, f"{name}.azurecr.io")


def test_groups_are_those_of_the_machine() -> None:
    user = user_of(os.getuid())
    primary = grp.getgrgid(user.pw_gid).gr_name
    foreign = next(group.gr_name for group in grp.getgrall() if group.gr_gid not in os.getgrouplist(user[0], user[3]))
    assert groups_of(user, [primary, foreign, "no-such-group"]) == {primary}


def test_a_user_id_without_an_account_is_granted_nothing() -> None:
    used = {one.pw_uid for one in pwd.getpwall()}
    free = next(uid for uid in range(300_000_000, 300_001_000) if uid not in used)
    with pytest.raises(NotGranted, match="has no account"):
        user_of(free)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"grant": []}, "^grants.json: has unknown keys grant"),
        ({"grants": {}}, "grants must be a list"),
        ({"life_s": 60}, "life_s"),
        ({"life_s": True}, "life_s"),
        ({"client_id": "me"}, "client_id"),
        ({"grants": [{**DATA, "rights": "all"}]}, r"grants\[0\].rights must be read, write or delete, not 'all'"),
        ({"grants": [{**DATA, "groups": []}]}, "groups must be a list of 1 or more"),
        ({"grants": [{**DATA, "groups": "research"}]}, "groups must be"),
        ({"grants": [{**DATA, "groups": [""]}]}, r"groups\[0\] must be a string that is not empty"),
        ({"grants": [{"groups": ["research"]}]}, r"grants\[0\] lacks account_url, container, rights"),
        ({"grants": [{**DATA, "container": "Data"}]}, "names no container"),
        ({"grants": [{**DATA, "container": "data/set"}]}, "is not a valid container name"),
        ({"grants": [{**DATA, "container": ""}]}, "names no container"),
        ({"grants": [{**DATA, "account_url": "https://example.com"}]}, "not the URL of a storage account"),
        ({"grants": [{**DATA, "folder": "x"}]}, r"grants\[0\] has unknown keys folder"),
        ({"grants": ["data"]}, r"grants\[0\] must be a mapping"),
    ],
)
def test_an_invalid_grant_is_refused_and_named(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked(FORM, stated, "grants.json")


def test_each_user_has_limits_for_connections_and_requests() -> None:
    now = [0.0]
    bounds = Bounds(each=2, total=3, a_minute=6, clock=lambda: now[0])
    assert [bool(bounds.enter(1)) for _time in range(3)] == [False, False, True]
    assert "2 open requests" in bounds.enter(1)
    assert not bounds.enter(2)
    assert "all 3 connections" in bounds.enter(3)
    bounds.leave(1)
    assert not bounds.enter(3)
    for _time in range(4):
        bounds.leave(1)
        assert not bounds.enter(1)
    bounds.leave(1)
    assert "more than 6 requests a minute" in bounds.enter(1)
    # Another user is not affected, and requests are allowed again as time passes.
    bounds.leave(3)
    assert not bounds.enter(4)
    bounds.leave(4)
    now[0] = 10.0
    assert not bounds.enter(1)
