# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The units that tell slurmctld what the health checks found, and answer a prolog that waits for the arbiter."""

from __future__ import annotations

from .files import MARK

PATH = "hpcai-health-report.path"
SERVICE = "hpcai-health-report.service"

UNITS = {
    PATH: f"""\
{MARK}
[Unit]
Description=Watch for new results of the health checks

[Path]
# The other tiers' results go with the next periodic ones: with many short jobs, that would be often.
PathChanged=/run/hpcai/health/periodic.json
PathExistsGlob=/run/hpcai/health/asked/*.json
Unit={SERVICE}

[Install]
# Not at boot alone: a node that is set up while it runs starts it with its slurmd.
WantedBy=slurmd.service
""",
    SERVICE: f"""\
{MARK}
[Unit]
Description=Tell slurmctld what the health checks found
After=network-online.target munge.service slurmd.service
# One prolog may ask right after another.
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode arbiter tell
TimeoutStartSec=120
""",
}
"""Text by name."""
