# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The settings of the metrics service, in /etc/hpcai/metrics.json, which the role monitoring writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..forms import absolute_path, boolean, guid, instance_of, matching, number, optional, or_empty
from ..machine.config import FOLDER, read_checked
from ..machine.exposition import TEXT_FOLDER
from ..machine.root import Root

CONFIG = "metrics"
FILE = f"{FOLDER}/{CONFIG}.json"


@dataclass(frozen=True)
class Token:
    """A token of this machine's identity in a file, for remote write to Azure Monitor.

    :ivar file: where the token is kept.
    :ivar resource: the service that it is for.
    :ivar client_id: which identity to use if the machine has several; else empty.
    :ivar group: the group that may read the file.
    """

    file: str
    resource: str = "https://monitor.azure.com"
    client_id: str = ""
    group: str = "prometheus"


@dataclass(frozen=True)
class Exporter:
    """How the node exporter runs.

    :ivar program: its path.
    :ivar port: its TCP port, on this machine's private address only.
    :ivar old_options: whether it is older than 1.5.0, and takes no socket from systemd; 1.4.0 renamed an option.
    """

    program: str = "/usr/bin/prometheus-node-exporter"
    port: int = 9100
    old_options: bool = False


@dataclass(frozen=True)
class Targets:
    """A file_sd file with targets for Prometheus.

    :ivar file: its path.
    :ivar port: the TCP port of the targets.
    """

    file: str
    port: int


@dataclass(frozen=True)
class Settings:
    """The content of the file.

    :ivar folder: the folder of the text files that the node exporter reads.
    :ivar interval_s: seconds between two collections on a compute node.
    :ivar slurm_interval_s: seconds between two collections from Slurm.
    :ivar slurm: whether this machine asks slurmctld.
    :ivar accounting: whether it asks slurmdbd too.
    :ivar jobs: whether this machine runs jobs.
    :ivar token: the token that this machine keeps fresh; None for none.
    :ivar exporter: the node exporter.
    :ivar elastic_targets: the file_sd file with the targets of elastic sets, which come and go without a playbook;
        empty for none.
    :ivar elastic_dcgm: the same for dcgm-exporter on these machines; None for none.
    """

    folder: str = TEXT_FOLDER
    interval_s: float = 30.0
    slurm_interval_s: float = 60.0
    slurm: bool = False
    accounting: bool = False
    jobs: bool = False
    token: Token | None = None
    exporter: Exporter = field(default_factory=Exporter)
    elastic_targets: str = ""
    elastic_dcgm: Targets | None = None


_TOKEN = instance_of(
    Token,
    {
        "file": absolute_path,
        "resource": matching(r"https://[A-Za-z0-9./-]+", "the https URL of a service"),
        "client_id": or_empty(guid),
        "group": matching(r"[a-z_][a-z0-9_-]{0,31}", "a group's name"),
    },
    null_is_absent=True,
)
FORM = instance_of(
    Settings,
    {
        "folder": absolute_path,
        "interval_s": number(5, 3600),
        "slurm_interval_s": number(10, 3600),
        "slurm": boolean,
        "accounting": boolean,
        "jobs": boolean,
        "token": optional(_TOKEN),
        "exporter": instance_of(
            Exporter,
            {"program": absolute_path, "port": number(1, 65535, integral=True), "old_options": boolean},
            null_is_absent=True,
        ),
        "elastic_targets": or_empty(absolute_path),
        "elastic_dcgm": optional(
            instance_of(Targets, {"file": absolute_path, "port": number(1, 65535, integral=True)})
        ),
    },
    null_is_absent=True,
)


def read_settings(root: Root) -> Settings | None:
    """Return the settings; None if there is no file, so that this machine is not monitored.

    :raises ConfigError: the file is invalid; the message says what to do.
    """
    return read_checked(root, CONFIG, FORM)
