# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the machine's checks cost before a job: they read files, and start at most two programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stand_ins.infiniband import put_ports_of
from stand_ins.machine_tree import nd_a100_v4

from ansible_collections.hpcai.azure.plugins.module_utils._node.health import catalog
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import PROLOG
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result

from .playing import ND_A100, context

OF_GPUS_AND_LOGS = ("gpu_", "dcgm", "nccl_")


def test_at_most_two_programs_are_started_before_a_job(tmp_path: Path) -> None:
    nd_a100_v4(tmp_path)
    put_ports_of(tmp_path, ND_A100)
    started: list[str] = []

    def run(command: Sequence[str]) -> Result:
        started.append(" ".join(command))
        return Result(tuple(command), 1, "", "")

    looked_at = [check for check in catalog.select_checks(PROLOG) if not check.name.startswith(OF_GPUS_AND_LOGS)]
    names = {check.name for check in looked_at}
    assert {"ib_ports", "ib_rate", "scratch", "services"} <= names
    for check in looked_at:
        check.measure(context(root=tmp_path, run=run, tier=PROLOG, seconds=check.limit_s))
    assert len(started) <= 2, started
