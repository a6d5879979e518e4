# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What other users did decides nothing about a job."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import checkpoints
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover import look
from ansible_collections.hpcai.azure.plugins.module_utils._node.recover.settings import Settings

from ..ledger.playing import END, T0, lines, run_line
from .test_look import ASKS, Slurmctld, one_pass


def test_runs_of_another_users_job_with_this_id_do_not_count(tmp_path: pathlib.Path) -> None:
    """slurmdbd keeps them when the ids begin again."""
    earlier = [run_line(7, "FAILED", 100 * one, 100 * one + 50, comment=ASKS, user="bob") for one in range(4)]
    slurmctld = Slurmctld(["7|FAILED|0|1|1000|7|N/A||"])
    running = run_line(7, "RUNNING", 500, None, comment=ASKS)
    assert not one_pass(tmp_path, slurmctld, [*earlier, running])
    ended = run_line(7, "FAILED", 500, 560, comment=ASKS)
    (done,) = one_pass(tmp_path, slurmctld, [*earlier, ended])
    assert done.decision.action == "requeue"
    # Also if it was the same user.
    (done,) = one_pass(tmp_path / "x", slurmctld, [*(one.replace("bob", "alice") for one in earlier), ended])
    assert done.decision.action == "requeue"


def test_another_users_store_holds_no_job(tmp_path: pathlib.Path) -> None:
    forged = Checkpoint("000000000005-7.0-w1", T0 + 10, "bobs")
    checkpoints.write_record(Root(str(tmp_path)), [forged])
    noted = f"{ASKS},hpcai:training=llama,hpcai:saved=0.40.{int((T0 + 50) * 1000)}"
    (done,) = one_pass(
        tmp_path, Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), [run_line(7, "FAILED", 0, 60, comment=noted)]
    )
    assert "from step 0 to 40" in done.decision.reason


def test_steps_of_jobs_are_not_read(tmp_path: pathlib.Path) -> None:
    asked: list[Sequence[str]] = []

    def ask(words: Sequence[str], handle: Callable[[str], None]) -> None:
        asked.append(words)
        lines([])(words, handle)

    look.look(Root(str(tmp_path)), Slurmctld(["7|FAILED|0|1|1000|7|N/A||"]), Settings(), END, set(), ask=ask)
    assert "--allocations" in asked[0]
