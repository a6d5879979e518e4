# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's releases: which of them knows which key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .config import ConfigError

Release = tuple[int, int]

OLDEST: Release = (22, 5)

# First and last release that know a key, where 22.05 to 26.05 differ; read out of the tables of keys at the tags
# slurm-22-05-0-1 to slurm-26-05-0-1 of Slurm's repository: slurm_conf_options in src/common/read_config.c, the options
# in src/interfaces/cgroup.c and in read_jcconf.c of job_container/tmpfs (namespace/tmpfs from 25.11 on). A daemon does
# not start on a key that it does not know.
_CAME: Mapping[str, Mapping[Release, str]] = {
    "slurm.conf": {
        (23, 2): "MaxBatchRequeue PreemptParameters SuspendExcStates",
        (24, 5): "HashPlugin TLSParameters TLSType",
        (24, 11): "CertmgrParameters CertmgrType DataParserParameters",
        (25, 5): "CertgenParameters CertgenType EpilogTimeout PrologTimeout",
        (25, 11): "CliFilterParameters HttpParserType JobCompPassScript MetricsType NamespaceType UrlParserType",
        (26, 5): "HealthCheckTimeout LicenseParameters MetricsAuthUsers MetricsParameters PowerAction "
        "SlurmctldHttpAuthParameters SlurmdHttpAuthParameters",
    },
    "cgroup.conf": {
        (23, 11): "EnableControllers SignalChildrenProcesses",
        (24, 5): "SystemdTimeout",
        (25, 5): "EnableExtraControllers",
        (25, 11): "CgroupSlice",
    },
    "job_container.conf": {
        (23, 2): "Dirs Shared",
        (24, 11): "CloneNSEpilog CloneNSScript EntireStepInNS",
    },
}
_WENT: Mapping[str, Mapping[Release, str]] = {
    "slurm.conf": {
        (23, 2): "SlurmctldPlugstack",
        (24, 5): "SchedulerAuth",
        (25, 5): "FrontendName",
        (25, 11): "AccountingStorageLoc",
    },
    "cgroup.conf": {
        # CgroupAutomount is read and does nothing from 23.11 on (RELEASE_NOTES of 23.11).
        (23, 11): "AllowedKmemSpace CgroupAutomount ConstrainKmemSpace MaxKmemPercent MinKmemSpace RootOwnedCgroups",
        (25, 11): "CgroupReleaseAgentDir",
    },
}


def release_of(text: Any) -> Release:
    """Return the release that ``22.05`` or a whole version such as ``22.05.8`` names.

    :raises ConfigError: nothing or something else is given, or a release that is too old.
    """
    if not text:
        raise ConfigError(
            "it is not known which Slurm the controller runs: set slurm_release, for example to '24.11' "
            "(sinfo --version says it)."
        )
    match = re.fullmatch(r"(\d{2})\.(\d{2})([.\-~].*)?", str(text).strip())
    if match is None:
        raise ConfigError(f"slurm_release is {text!r}: it must be a release such as '24.11', in quotes.")
    release = (int(match[1]), int(match[2]))
    if release < OLDEST:
        raise ConfigError(f"slurm_release is {text}: releases before {shown(OLDEST)} are not supported.")
    return release


def shown(release: Release) -> str:
    """Return a release as Slurm writes it."""
    return f"{release[0]}.{release[1]:02}"


def check_keys(file: str, keys: Iterable[str], release: Release) -> None:
    """Refuse keys that this release does not know.

    :raises ConfigError: one is not known; the message says which releases know it.
    """
    came = {key.lower(): first for first, names in _CAME.get(file, {}).items() for key in names.split()}
    went = {key.lower(): first for first, names in _WENT.get(file, {}).items() for key in names.split()}
    for key in keys:
        first, gone = came.get(key.lower(), release), went.get(key.lower())
        if release < first:
            raise ConfigError(
                f"{file}: {key} came with Slurm {shown(first)}, and slurm_release is {shown(release)}: leave it out."
            )
        if gone and release >= gone:
            raise ConfigError(
                f"{file}: {key} is gone since Slurm {shown(gone)}, and slurm_release is {shown(release)}: leave it out."
            )
