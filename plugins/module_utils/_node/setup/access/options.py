# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may log in to this machine: what was asked for, and the file that tells each boot of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...machine.config import FOLDER, ConfigError, as_config, read_config
from ...machine.root import Root

CONFIG = "access"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
_LISTS = ("admins", "admin_groups", "options")


@dataclass(frozen=True)
class AccessOptions:
    """What is wanted.

    :ivar present: whether access depends on jobs at all.
    :ivar admins: users who are always let in.
    :ivar admin_groups: groups whose members are.
    :ivar node_name: the node's name in Slurm; None where that is the host's.
    :ivar options: of pam_slurm_adopt.
    :ivar nss: whether nss_slurm is asked for names.
    :ivar spool: slurmd's folder.
    :ivar hide_processes: whether users see their own processes alone.
    :ivar me: who runs this by sudo; empty where nobody does.
    """

    present: bool
    admins: tuple[str, ...]
    admin_groups: tuple[str, ...]
    node_name: str | None
    options: tuple[str, ...]
    nss: bool
    spool: str
    me: str = ""
    hide_processes: bool = False


def as_text(wanted: AccessOptions) -> str:
    """Return the text of the settings file. The node's name is no part of it: an image has none."""
    return as_config(
        {
            "admins": list(wanted.admins),
            "admin_groups": list(wanted.admin_groups),
            "options": list(wanted.options),
            "nss_slurm": wanted.nss,
            "spool_dir": wanted.spool,
            "hide_processes": wanted.hide_processes,
        }
    )


def read_options(root: Root, node_name: str) -> AccessOptions | None:
    """Return what the settings file says for a node of this name; None if there is none, and nothing is asked for.

    :raises ConfigError: it cannot be used.
    """
    stated = read_config(root, CONFIG)
    if stated is None:
        return None
    lists = {name: stated.get(name) for name in _LISTS}
    wrong = [name for name, value in lists.items() if not _is_words(value)]
    wrong += [] if isinstance(stated.get("nss_slurm"), bool) else ["nss_slurm"]
    wrong += [] if isinstance(stated.get("spool_dir"), str) else ["spool_dir"]
    # An image that was baked by an earlier version does not have it.
    hide = stated.get("hide_processes", False)
    wrong += [] if isinstance(hide, bool) else ["hide_processes"]
    if wrong:
        raise ConfigError(f"{root.at(SETTINGS)} has no usable {', '.join(wrong)}: run site.yml, which writes it.")
    return AccessOptions(
        present=True,
        admins=tuple(lists["admins"] or ()),
        admin_groups=tuple(lists["admin_groups"] or ()),
        node_name=node_name,
        options=tuple(lists["options"] or ()),
        nss=stated["nss_slurm"],
        spool=stated["spool_dir"],
        hide_processes=hide,
    )


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
