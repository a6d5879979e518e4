# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The scripts of prolog, epilog and health check: kinds, limits and environment, and /etc/hpcai/job_hooks.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...forms import instance_of, mapping_of, number, optional, record, string
from ...machine.config import FOLDER, as_config, read_checked
from ...machine.root import Root

PROLOG, EPILOG, HEALTH = "prolog", "epilog", "health"
KINDS = (PROLOG, EPILOG, HEALTH)

SLURMS_REASONS = {PROLOG: "Prolog error", EPILOG: "Epilog error"}
"""The reason that slurmctld itself writes when it drains the node (slurmctld's node_mgr.c and job_mgr.c, 22.05 to
26.05). The result of HealthCheckProgram never makes slurmctld drain a node."""

ENDS_AT_FAILURE = (PROLOG,)
"""After a failed prolog no job follows, so the remaining scripts are not run. An epilog runs all: it cleans up."""


JOBS_FAULT_STATUS = 75
"""The exit status of a prolog's script for a fault of the job, such as a file system that users filled: the job is
requeued, and the node is not drained. EX_TEMPFAIL of sysexits.h."""


@dataclass(frozen=True)
class Limits:
    """Time limits of scripts, in seconds.

    :ivar script: for each script that has no limit of its own.
    :ivar total: for all scripts of a kind together.
    """

    script: float
    total: float


DEFAULT_LIMITS = {
    PROLOG: Limits(30, 100),
    EPILOG: Limits(30, 100),
    # slurmd kills a HealthCheckProgram after 60 s.
    HEALTH: Limits(20, 50),
}
"""The role slurm has the same values, and derives Slurm's own limits from them; a test compares them."""


def folder(kind: str) -> str:
    """Return the folder of a kind's scripts."""
    return f"/etc/hpcai/{kind}.d"


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NO_JOB = "none"

_SAME = (
    # slurmd up to 22.05 sets only SLURM_NODELIST (prep_script_slurmd.c); later manuals name only the other.
    ("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
    ("SLURM_JOB_ID", "SLURM_JOBID"),
    ("SLURM_JOB_UID", "SLURM_UID"),
)


def script_environment(given: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the environment of scripts: slurmd's variables, each under its old and its new name."""
    made = {**given, "PATH": PATH, "LC_ALL": "C", "HPCAI_HOOK": kind}
    for pair in _SAME:
        for name, other in (pair, pair[::-1]):
            if not made.get(name) and made.get(other):
                made[name] = made[other]
    return made


def job_number(given: Mapping[str, str]) -> str:
    """Return the id of the job for which slurmd runs the scripts; NO_JOB if there is none."""
    number = given.get("SLURM_JOB_ID") or given.get("SLURM_JOBID") or ""
    return number if re.fullmatch(r"[0-9]{1,19}", number) else NO_JOB


CONFIG = "job_hooks"
SETTINGS = f"{FOLDER}/{CONFIG}.json"
NAME = re.compile(r"[0-9]{2}-[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
NAME_WORDS = "two digits for the order, '-', and letters, digits, '.', '_' or '-', such as 50-gpu"
LONGEST_S = 3600.0

Sets = Mapping[str, Mapping[str, Mapping[str, "float | None"]]]
"""The limits of the scripts that Ansible installed, by set, kind and name; None to use the limit of the kind."""


@dataclass(frozen=True)
class HookSettings:
    """The content of the settings file.

    :ivar limits: by kind; each kind has an entry.
    :ivar sets: the scripts that Ansible installed.
    """

    limits: Mapping[str, Limits] = field(default_factory=lambda: dict(DEFAULT_LIMITS))
    sets: Sets = field(default_factory=dict)

    def limit_of(self, kind: str, name: str) -> float:
        """Return the time limit of a script in seconds, whether Ansible installed it or not."""
        for kinds in self.sets.values():
            limit = kinds.get(kind, {}).get(name)
            if limit is not None:
                return limit
        return self.limits[kind].script

    def owner_of(self, kind: str, name: str) -> str | None:
        """Return the set that a script belongs to; None if Ansible did not install it."""
        return next((named for named, kinds in self.sets.items() if name in kinds.get(kind, {})), None)


_SECONDS = number(0, LONGEST_S, above=True)


def seconds(path: str, value: Any) -> float:
    """Parse a number of seconds; integral values become int, so that the file keeps the user's notation."""
    given: float = _SECONDS(path, value)
    return int(given) if float(given).is_integer() else given


_LIMITS = optional(record(dict.fromkeys(KINDS, optional(record(dict.fromkeys(("script", "total"), seconds)), {}))), {})
_SCRIPTS = optional(mapping_of(string, optional(seconds)), {})
_SETS = optional(mapping_of(string, optional(record(dict.fromkeys(KINDS, _SCRIPTS)), {})), {})


def limits_from(path: str, value: Any) -> dict[str, Limits]:
    """Parse the limits of all kinds; missing values get the defaults."""
    stated = _LIMITS(path, value)
    return {kind: replace(limits, **stated.get(kind, {})) for kind, limits in DEFAULT_LIMITS.items()}


_FORM = instance_of(HookSettings, {"limits": limits_from, "sets": _SETS})


def read_settings(root: Root) -> HookSettings:
    """Return the settings; the defaults if there is no file.

    :raises ConfigError: the file is invalid.
    """
    return read_checked(root, CONFIG, _FORM) or HookSettings()


def as_text(settings: HookSettings) -> str:
    """Return the text of the file."""
    limits = {kind: {"script": given.script, "total": given.total} for kind, given in settings.limits.items()}
    sets = {name: {kind: dict(scripts) for kind, scripts in kinds.items()} for name, kinds in settings.sets.items()}
    return as_config({"limits": limits, "sets": sets})
