# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Requeuing a job whose prolog says that the job cannot run here and that the node is not at fault.

Slurm drains the node of each prolog that fails. What a user can cause must not have that effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...machine.config import ConfigError
from ...machine.root import Root
from ...machine.run import CommandFailed
from ...slurm import slurmd_env
from ..beeond.bounded import Bounded
from ..beeond.failures import OwnFailure
from ..beeond.job import job_of
from ..beeond.put_back import Controller, Silent, put_back


class NotGivenBack(RuntimeError):
    """The job may still run, so that its prolog has to fail; the message says why."""


def give_back(environment: Mapping[str, str], reason: str, root: Root, run: Bounded, may_hold: bool = True) -> str:
    """Requeue the job, or cancel one without a batch script, with the reason; return what became of it.

    :param environment: the scripts', as environment.py makes it.
    :param may_hold: whether a job that was requeued several times before is held.
    :raises NotGivenBack: slurmctld does not say that the job will not run.
    """
    try:
        env = slurmd_env.read(root)
        return put_back(job_of(environment), Controller(env.controllers if env else (), run), reason, may_hold)
    except (ConfigError, CommandFailed, OwnFailure, Silent) as error:
        raise NotGivenBack(str(error)) from None
