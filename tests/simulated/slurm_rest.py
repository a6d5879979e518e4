# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's REST API on simulated nodes."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

from simulator.suite import suite

from .cluster import Cluster

VERSION = {"trixie": "v0.0.42", "bookworm": "v0.0.38"}[suite()]
"""The newest version of the API in the suite's Slurm."""


def rest(
    host: str, path: str, token: str, data: dict[str, Any] | None = None, method: str | None = None
) -> tuple[int, Any]:
    """Ask slurmrestd at the port of this host; returns the status and the answer.

    :param path: with ``{v}`` for the version.
    """
    request = urllib.request.Request(
        f"http://{host}:6820{path.format(v=VERSION)}",
        data=json.dumps(data).encode() if data else None,
        headers={"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": user_of(token), "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def user_of(token: str) -> str:
    """The user in a token; empty if the token is invalid. slurmrestd of Slurm 22.05 needs the name too."""
    body = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        return str(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sun"])
    except (ValueError, KeyError):
        return ""


def token_of(cluster: Cluster, address: str, user: str) -> str:
    """A token that a user creates on the machine with this address."""
    return cluster.ssh(address, f"sudo -u {user} scontrol token lifespan=600").strip().removeprefix("SLURM_JWT=")
