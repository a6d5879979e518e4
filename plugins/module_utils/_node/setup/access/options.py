# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Who may log in to this machine: the options, and the settings file for each boot."""

from __future__ import annotations

from dataclasses import dataclass

from ...forms import boolean, list_of, record, string
from ...machine.config import FOLDER, as_config, read_checked
from ...machine.root import Root

CONFIG = "access"
SETTINGS = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class AccessOptions:
    """The options.

    :ivar present: whether access depends on jobs at all.
    :ivar admins: users who may always log in.
    :ivar admin_groups: groups whose members may always log in.
    :ivar node_name: the node's name in Slurm; None if it is the host name.
    :ivar options: options of pam_slurm_adopt.
    :ivar nss: whether nss_slurm is used to look up names.
    :ivar spool: slurmd's spool folder.
    :ivar hide_processes: whether users see only their own processes.
    :ivar me: the user who runs this through sudo; empty if there is none.
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


def as_text(options: AccessOptions) -> str:
    """Return the text of the settings file. It does not contain the node's name, because an image has none."""
    return as_config(
        {
            "admins": list(options.admins),
            "admin_groups": list(options.admin_groups),
            "options": list(options.options),
            "nss_slurm": options.nss,
            "spool_dir": options.spool,
            "hide_processes": options.hide_processes,
        }
    )


_TEXTS = list_of(string)
_FORM = record(
    {
        "admins": _TEXTS,
        "admin_groups": _TEXTS,
        "options": _TEXTS,
        "nss_slurm": boolean,
        "spool_dir": string,
        "hide_processes": boolean,
    },
    required=("admins", "admin_groups", "options", "nss_slurm", "spool_dir"),
    # Settings in an image that an earlier version baked do not have it.
    defaults={"hide_processes": False},
)


def read_options(root: Root, node_name: str) -> AccessOptions | None:
    """Return the options from the settings file for a node of this name; None if there is no file.

    :raises ConfigError: the file is invalid.
    """
    stated = read_checked(root, CONFIG, _FORM)
    if stated is None:
        return None
    return AccessOptions(
        present=True,
        admins=stated["admins"],
        admin_groups=stated["admin_groups"],
        node_name=node_name,
        options=stated["options"],
        nss=stated["nss_slurm"],
        spool=stated["spool_dir"],
        hide_processes=stated["hide_processes"],
    )
