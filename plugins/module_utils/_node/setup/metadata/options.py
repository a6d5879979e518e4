# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may reach the metadata service on this machine: the options, and the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from ...forms import boolean, list_of, record, string
from ...machine.config import FOLDER, as_config, read_checked
from ...machine.root import Root
from ..users.facts import read_facts

CONFIG = "metadata"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
_LARGEST_UID = 2**32 - 2


class MetadataProblem(ValueError):
    """The options cannot be applied; the message says what to do."""


@dataclass(frozen=True)
class MetadataOptions:
    """The options.

    :ivar guard: whether only root and ``users`` reach the metadata service.
    :ivar users: names or uids of further users.
    :ivar site_rules: the file that nftables.service loads.
    :ivar events: whether to run the service that passes scheduled events on to users.
    :ivar reload_flushes: whether the distribution's nftables.service flushes all rules before it reloads that file.
    """

    guard: bool
    users: tuple[str, ...] = ()
    site_rules: str = "/etc/nftables.conf"
    reload_flushes: bool = False
    events: bool = False


def uids_of(root: Root, users: tuple[str, ...]) -> tuple[int, ...]:
    """Return the uids of these users, starting with root's.

    If the rules contained names, nft would look them up at each load, and load no rule if one name is missing.

    :raises MetadataProblem: the machine has no such user.
    """
    found = {0}
    for user in users:
        account = None if user.isdecimal() else read_facts(root).account(user)
        uid = int(user) if user.isdecimal() else account.uid if account else -1
        if not 0 <= uid <= _LARGEST_UID:
            raise MetadataProblem(
                f"user {user!r} does not exist on this machine. Create it first, or remove it from the users of the "
                f"metadata service (node_tools_metadata_users)"
            )
        found.add(uid)
    return tuple(sorted(found))


def as_text(options: MetadataOptions) -> str:
    """Return the text of the settings file."""
    return as_config({"guard": options.guard, "users": list(options.users)})


_FORM = record({"guard": boolean, "users": list_of(string)}, required=("guard",), defaults={"users": ()})


def read_guard(root: Root) -> bool | None:
    """Return whether the settings file requires the rules; None if there is no such file.

    :raises ConfigError: the file is invalid.
    """
    stated = read_checked(root, CONFIG, _FORM)
    return stated["guard"] if stated else None


def read_users(root: Root) -> tuple[str, ...]:
    """Return the further users in the settings file.

    :raises ConfigError: the file is invalid.
    """
    stated = read_checked(root, CONFIG, _FORM)
    return stated["users"] if stated else ()
