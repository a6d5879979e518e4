# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's queue, as its controller shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from .cluster import Cluster


def jobs(cluster: Cluster, controller: str) -> list[list[str]]:
    """The owner, id, state and time limit of each job in the queue."""
    shown = cluster.ssh(controller, "squeue --noheader --format='%u %i %T %l'")
    return [line.split() for line in shown.splitlines()]


def no_jobs(cluster: Cluster, controller: str) -> None:
    """Wait until the queue is empty."""
    deadline = time.monotonic() + 60
    while jobs(cluster, controller):
        assert time.monotonic() < deadline, jobs(cluster, controller)
        time.sleep(1)


def cancels_jobs_of_failed_tests(controller: str) -> Callable[..., Iterator[None]]:
    """Return a fixture: jobs that a failed test has left are cancelled, so that they do not fail the next test."""

    @pytest.fixture(autouse=True)
    def fixture(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[None]:
        failed = request.session.testsfailed
        yield
        if request.session.testsfailed > failed:
            cluster.ssh(controller, "sudo scancel --state=PENDING; sudo scancel --state=RUNNING", check=False)
            no_jobs(cluster, controller)

    return fixture
