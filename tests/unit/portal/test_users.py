# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may log in to the portal, and which user of the cluster an OpenID identity is."""

from __future__ import annotations

import pytest

from hpcai_portal import users
from hpcai_portal.users import Account, Rules

ALICE = Account("alice", 4001, ("alice", "vision"))


@pytest.mark.parametrize(
    ("account", "rules", "problem"),
    [
        (ALICE, Rules(), ""),
        (None, Rules(), "is not a user"),
        (Account("root", 0, ("root",)), Rules(), "system user"),
        (Account("slurm", 64030, ("slurm",), "/usr/sbin/nologin"), Rules(), "no login shell"),
        (Account("munge", 111, ("munge",)), Rules(), "system user"),
        (Account("eve", 4002, ("eve", "sudo")), Rules(), "in the group sudo"),
        (Account("eve", 4002, ("eve", "sudo")), Rules(refused_groups=()), ""),
        (Account("azureuser", 1000), Rules(refused_users=("azureuser",)), "administrator"),
        (ALICE, Rules(groups=("vision", "language")), ""),
        (ALICE, Rules(groups=("language",)), "in none of the groups language"),
    ],
)
def test_rules_of_the_login(account: Account | None, rules: Rules, problem: str) -> None:
    found = users.problem_of(account, rules)
    assert bool(found) is bool(problem)
    assert problem in found


def test_root_is_known_and_unknown_or_odd_names_are_not() -> None:
    root = users.account_of("root")
    assert root is not None
    assert root.uid == 0
    assert "root" in root.groups
    for name in ("", "no such user", "a\0b", "x" * 5000):
        assert users.account_of(name) is None


@pytest.mark.parametrize(
    ("value", "domain", "name"),
    [
        ("alice@example.org", "example.org", "alice"),
        ("Alice@EXAMPLE.org", "example.org", "alice"),
        ("alice@example.com", "example.org", ""),
        ("alice@example.org.evil.net", "example.org", ""),
        ("alice@evil.net@example.org", "example.org", ""),
        ("alice", "example.org", ""),
        ("alice", "", "alice"),
        ("alice@example.org", "", ""),
        ("a;id@example.org", "example.org", ""),
        ("@example.org", "example.org", ""),
        (7, "", ""),
        (None, "", ""),
        (["alice"], "", ""),
    ],
)
def test_only_names_of_the_own_domain_count(value: object, domain: str, name: str) -> None:
    assert users.name_of_claim({"preferred_username": value}, "preferred_username", domain) == name


def test_a_missing_claim_is_nobody() -> None:
    assert users.name_of_claim({}, "preferred_username", "example.org") == ""
