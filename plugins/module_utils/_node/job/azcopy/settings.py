# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""This node's defaults for Blob storage: /etc/hpcai/blob.json, written by role blob_staging."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ...machine.config import ConfigError, read_config
from ...machine.root import Root
from .credential import IDENTITY, KINDS

NAME = "blob"
SETTINGS = "/etc/hpcai/blob.json"


@dataclass(frozen=True)
class Settings:
    """Defaults; there is no secret in them.

    :ivar azcopy: the program.
    :ivar credential: one of azcopy.credential.KINDS.
    :ivar client_id: which of the machine's identities; empty where there is but one.
    :ivar account_gbps: what an account may carry, which all nodes of a job share; 0 for no cap.
    :ivar processes: how many azcopies a node runs.
    :ivar connections: how many connections each of these has; 0 leaves it to azcopy.
    :ivar work_folder: where logs and plans are; empty for the folder for temporary files.
    """

    azcopy: str = "azcopy"
    credential: str = IDENTITY
    client_id: str = ""
    account_gbps: float = 0.0
    processes: int = 1
    connections: int = 0
    work_folder: str = ""

    def text_problem(self) -> str:
        """Return what is wrong with them; nothing if nothing is."""
        if self.credential not in KINDS:
            return f"credential is {self.credential!r}: it may be {', '.join(KINDS)}"
        if self.account_gbps < 0 or self.connections < 0:
            return "account_gbps and connections are 0 or more"
        if not 1 <= self.processes <= 64:
            return f"processes is {self.processes}: it may be 1 to 64"
        if self.work_folder and not os.path.isabs(self.work_folder):
            return f"work_folder is {self.work_folder!r}: it must be an absolute path"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """Return them for the file."""
        return asdict(self)


def settings_from(stated: Mapping[str, Any], where: str) -> Settings:
    """Return the settings that ``stated`` holds.

    :raises ConfigError: a key is unknown, or of the wrong form.
    """
    known = {one.name: type(one.default) for one in fields(Settings)}
    unknown = sorted(str(key) for key in stated if key not in known)
    if unknown:
        raise ConfigError(f"{where} has unknown keys: {', '.join(unknown)}; it may have {', '.join(known)}.")
    for key, value in stated.items():
        wanted = (int, float) if known[key] is float else known[key]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigError(f"{key} in {where} is {value!r}: it must be a {known[key].__name__}.")
    found = Settings(**stated)
    if found.text_problem():
        raise ConfigError(f"{where}: {found.text_problem()}.")
    return found


def read_settings(root: Root) -> Settings:
    """Return this node's settings; the defaults where there is no file.

    :raises ConfigError: there is one that cannot be used.
    """
    stated = read_config(root, NAME)
    return Settings() if stated is None else settings_from(stated, root.at(SETTINGS))
