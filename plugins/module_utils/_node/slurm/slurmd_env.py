# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""A node's name in Slurm, and the file with slurmd's name and its controllers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..machine.config import ConfigError
from ..machine.root import Root


def node_name_of(scale_set: str | None, instance_id: str | None, computer_name: str) -> str:
    """Return the NodeName of a machine.

    An instance of a Uniform scale set is named ``<set>-<instance id>``, which gives short host lists. Every other
    machine is named by its computer name.

    :param instance_id: its id in the set, decimal; instances of Flexible sets have none.
    """
    if scale_set and instance_id is not None and instance_id.isdecimal() and instance_id.isascii():
        return f"{scale_set}-{instance_id}"
    return computer_name


def own_node_name(compute: Mapping[str, Any]) -> str | None:
    """Return the NodeName of this machine from the metadata service; None if the service has no name.

    :param compute: the service's ``compute`` document. There, an instance of a Uniform set is named ``SET_ID``. An
        instance of a Flexible set may have a similar name, ``SET_`` and eight hexadecimal digits; the resource id
        distinguishes them.
    """
    name, scale_set = str(compute.get("name") or ""), str(compute.get("vmScaleSetName") or "")
    profile = compute.get("osProfile")
    computer_name = str((profile.get("computerName") if isinstance(profile, Mapping) else "") or name)
    instance_id = None
    resource_id = str(compute.get("resourceId") or "")
    if scale_set and (not resource_id or "/virtualmachinescalesets/" in resource_id.lower()):
        set_in_name, underscore, number = name.rpartition("_")
        if underscore and set_in_name.lower() == scale_set.lower():
            scale_set, instance_id = set_in_name, number
    return node_name_of(scale_set, instance_id, computer_name) or None


ENV_FILE = "/etc/hpcai/slurmd.env"
HEADER = "# Written by hpcnode at the machine's start, and again at the next. If site.yml changes it, it is the site's."
_AS_WRITTEN = "# As written: "


@dataclass(frozen=True)
class SlurmdEnv:
    """The content of the file.

    :ivar node_name: the node's name in Slurm.
    :ivar controllers: addresses of slurmctld, as ADDRESS or ADDRESS:PORT, the first controller first.
    """

    node_name: str
    controllers: tuple[str, ...]


def slurmd_options(node_name: str, controllers: Iterable[str], booted: bool = False) -> str:
    """Return slurmd's options; it fetches everything else from the first controller that answers.

    :param booted: whether slurmd reports that the machine has just booted. slurmctld accepts a node that it powered up
        only if its machine booted after the request; an instance may be older (node_mgr.c, waiting_for_node_boot).
    """
    return f"-N {node_name} --conf-server {','.join(controllers)}{' -b' if booted else ''}"


def slurmd_env(node_name: str, controllers: Iterable[str], booted: bool = False) -> str:
    """Return the text of the file as a node writes it. The role slurm writes the same last line."""
    options = slurmd_options(node_name, controllers, booted)
    return f'{HEADER}\n{_AS_WRITTEN}{options}\nSLURMD_OPTIONS="{options}"\n'


def is_ours(root: Root) -> bool:
    """Whether the file is as the node wrote it.

    The role slurm leaves the file unchanged if it already has the wanted line, and otherwise changes only that line.
    """
    lines = (root.text(ENV_FILE) or "").splitlines()
    stated = [line[len(_AS_WRITTEN) :] for line in lines if line.startswith(_AS_WRITTEN)]
    return lines[:1] == [HEADER] and bool(stated) and lines[-1] == f'SLURMD_OPTIONS="{stated[0]}"'


def read(root: Root) -> SlurmdEnv | None:
    """Return the content of the file; None if it does not exist.

    :raises ConfigError: it lacks the name or the controllers.
    """
    if not root.exists(ENV_FILE):
        return None
    stated = re.search(r'^SLURMD_OPTIONS="?([^"\n]*)"?$', root.text(ENV_FILE) or "", re.MULTILINE)
    words = stated[1].split() if stated else []
    following = dict(zip(words, words[1:]))
    name, controllers = following.get("-N"), following.get("--conf-server")
    if not name or not controllers:
        raise ConfigError(
            f"{root.at(ENV_FILE)} has no SLURMD_OPTIONS with -N and --conf-server. Run site.yml, which writes it."
        )
    return SlurmdEnv(name, tuple(filter(None, controllers.split(","))))
