# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where a node's report stands at slurmctld: /etc/hpcai/health_report.json."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...machine.config import FOLDER, ConfigError, read_config
from ...machine.root import Root
from ...slurm.arbiter.observed import EXTRA, FIELDS

CONFIG = "health_report"
FILE = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class Settings:
    """What the file says.

    :ivar field: Extra or Comment: the field of the node's record. A site whose jobs use ``--extra`` takes Comment.
    :ivar refuse_jobs: whether a prolog may end a job's start.
    :ivar boot: whether the checks of the tier boot are run before slurmd starts.
    """

    field: str = EXTRA
    refuse_jobs: bool = True
    boot: bool = True


def read_settings(root: Root) -> Settings:
    """Return the settings; the defaults where the file is not there.

    :raises ConfigError: the file cannot be used.
    """
    said = read_config(root, CONFIG) or {}
    known = {one.name: one.default for one in fields(Settings)}
    for key, value in said.items():
        if key not in known:
            raise ConfigError(f"{root.at(FILE)}: there is no key {key}; there are {', '.join(known)}: {_MEND}.")
        if key == "field" and value not in FIELDS:
            raise ConfigError(f"{root.at(FILE)}: field is {value!r}, and may be {' or '.join(FIELDS)}: {_MEND}.")
        if key != "field" and not isinstance(value, bool):
            raise ConfigError(f"{root.at(FILE)}: {key} is {value!r}, and must be true or false: {_MEND}.")
    return Settings(**said)


def is_set_up(root: Root) -> bool:
    """Whether the role health_checks was here."""
    return root.exists(FILE)


_MEND = "mend health_checks_report in the inventory and run the playbook again"
