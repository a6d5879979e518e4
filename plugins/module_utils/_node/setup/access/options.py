# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may log in to this machine: the options, and the settings file for each boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...forms import arguments_of, boolean, defaults_of, instance_of, list_of, string, unquoted_path
from ...machine.config import FOLDER, as_config, read_checked
from ...machine.root import Root

CONFIG = "access"
SETTINGS = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class AccessOptions:
    """See the options of the module compute_access.

    :ivar present: whether access depends on jobs at all.
    :ivar node_name: the node's name in Slurm; None if it is the host name. An image has none.
    :ivar me: the user who runs this through sudo; empty if there is none.
    """

    admins: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ("sudo", "wheel")
    options: tuple[str, ...] = (
        "action_no_jobs=deny",
        "action_unknown=newest",
        "action_adopt_failure=deny",
        "action_generic_failure=deny",
    )
    nss_slurm: bool = False
    spool_dir: str = "/var/lib/slurm/slurmd"
    hide_processes: bool = False
    present: bool = True
    node_name: str | None = None
    me: str = ""


_TEXTS = list_of(string)
_FORMS = {
    "admins": _TEXTS,
    "admin_groups": _TEXTS,
    "options": _TEXTS,
    "nss_slurm": boolean,
    "spool_dir": unquoted_path,
    "hide_processes": boolean,
}
ARGUMENTS = arguments_of(_FORMS, defaults_of(AccessOptions))
"""The module's options that are also in the settings file."""
_FORM = instance_of(AccessOptions, _FORMS)


def options_of(given: Mapping[str, Any], present: bool, node_name: str | None, me: str) -> AccessOptions:
    """Return options from a module's parameters.

    :raises ConfigError: one has an invalid value.
    """
    return replace(_FORM("", {name: given[name] for name in _FORMS}), present=present, node_name=node_name, me=me)


def as_text(options: AccessOptions) -> str:
    """Return the text of the settings file."""
    return as_config({name: getattr(options, name) for name in _FORMS})


def read_options(root: Root, node_name: str) -> AccessOptions | None:
    """Return the options from the settings file for a node of this name; None if there is no file.

    :raises ConfigError: the file is invalid.
    """
    stated = read_checked(root, CONFIG, _FORM)
    return replace(stated, node_name=node_name) if stated else None
