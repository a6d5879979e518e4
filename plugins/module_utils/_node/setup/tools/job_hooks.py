# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What Slurm calls for each job, and the units that tell it afterwards why a prolog or an epilog failed."""

from __future__ import annotations

from .files import MARK

LIBEXEC = "/usr/libexec/hpcai"
KINDS = ("prolog", "epilog", "health")
FOLDERS = (LIBEXEC, *(f"/etc/hpcai/{kind}.d" for kind in KINDS))
PATH = "hpcai-hook-report.path"
SERVICE = "hpcai-hook-report.service"

# slurmd gives an empty PATH, or its own. Where there is nothing to run and no failure that this run could follow, no
# Python is started: most nodes call this often.
_TEXT = """\
#!/bin/sh
{mark}
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ ! -e /run/hpcai/job/{kind}.json ]; then
  set -- /etc/hpcai/{kind}.d/*
  [ -e "$1" ] || [ -h "$1" ] || exit 0
fi
exec /usr/bin/hpcnode job run {kind}
"""

PROGRAMS = {f"{LIBEXEC}/{kind}": _TEXT.format(mark=MARK, kind=kind) for kind in KINDS}
"""Text by path."""

UNITS = {
    PATH: f"""\
{MARK}
[Unit]
Description=Watch for a prolog or an epilog that failed

[Path]
PathExistsGlob=/run/hpcai/job/report/*.json
Unit={SERVICE}

[Install]
# Not at boot alone: a node that is set up while it runs starts it with its slurmd.
WantedBy=slurmd.service
""",
    SERVICE: f"""\
{MARK}
[Unit]
Description=Say in Slurm why a prolog or an epilog failed
After=network-online.target munge.service slurmd.service

[Service]
Type=oneshot
ExecStart=/usr/bin/hpcnode job report
TimeoutStartSec=540
""",
}
"""Text by name."""
