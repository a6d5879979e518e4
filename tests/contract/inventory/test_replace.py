# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What replace.yml does with the nodes that are meant: they are moved, looked at, and put to work if they are sound."""

from __future__ import annotations

import json

import pytest

from .reading import Source
from .replacing import Controller, health, posts, replace, task, words


@pytest.mark.thorough
def test_nothing_is_done_unless_confirmed(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3")

    assert done.returncode != 0
    assert "moved to other physical hosts, which wipes their local disks: compute-3. Nothing was done." in words(done)
    assert "-e hpcai_replace_confirm=true" in words(done)
    assert controller.updates == []
    assert posts(source) == []


def test_node_is_drained_and_moved_and_stays_drained_until_it_is_sound(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    reason = "hpcai: replace: its hardware is faulty, it will be moved to another host"
    assert controller.updates == [f"update NodeName=compute-3 State=DRAIN Reason={reason}"], words(done)
    assert posts(source) == [("POST", "redeploy")]
    assert "3" in source.simulator.scale_set("compute").members
    # Nobody can tell how it is, as it does not answer.
    assert done.returncode != 0
    assert "Moved, but a check fails or they do not answer, so they stay drained: compute-3." in words(done)


@pytest.mark.thorough
def test_machine_that_does_not_come_up_is_waited_for_once(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert "timed out" in task(done, "Wait for ssh"), words(done)
    for name in ("Wait for slurmd", "Run the checks"):
        assert "skipping: [compute000003]" in task(done, name), name


@pytest.mark.thorough
def test_a_tag_makes_no_machine_one_that_was_moved(source: Source, controller: Controller) -> None:
    source.simulator.edit("compute_0", tags={"hpcai_role": "compute,replaced"})

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert "compute000003" in task(done, "Run the checks"), words(done)
    assert "compute000000" not in task(done, "Run the checks")


@pytest.mark.thorough
def test_machine_that_is_sound_is_put_to_work(source: Source, controller: Controller) -> None:
    answer = health(source)

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, answer=answer)

    assert done.returncode == 0, words(done)
    assert [update.split()[1:3] for update in controller.updates] == [
        ["NodeName=compute-3", "State=DRAIN"],
        ["NodeName=compute-3", "State=RESUME"],
    ]
    assert "Moved and resumed: compute-3." in words(done)


@pytest.mark.thorough
def test_machine_that_came_back_on_a_bad_host_is_named(source: Source, controller: Controller) -> None:
    meant = {"hpcai_replace": "compute-3", "hpcai_replace_confirm": True}
    bad = health(source, failed="7 of 8 GPUs: 0003:00:00.0 is not there")

    done = replace(source, controller, answer=bad, **meant)

    assert done.returncode != 0
    assert "Moved, but a check fails or they do not answer, so they stay drained: compute-3." in words(done)
    hosts = json.loads((source.path.parent / "health-report/hosts.json").read_text(encoding="utf-8"))["hosts"]
    assert [fault["summary"] for fault in hosts["GGBB1"]] == [bad["checks"][0]["summary"]]

    again = replace(source, controller, answer=health(source), **meant)
    assert again.returncode == 0, words(again)
    assert "compute-3 is still on the physical host GGBB1, which had a hardware fault" in words(again)
    assert "Moved and resumed: compute-3." in words(again)

    elsewhere = replace(source, controller, answer=health(source, host="GGBB2"), **meant)
    assert elsewhere.returncode == 0, words(elsewhere)
    assert "the physical host" not in words(elsewhere)


@pytest.mark.daily(1)
@pytest.mark.parametrize("reason", ["hpcai: health: replace: gpu_count: 7 of 8 GPUs", "bad fan, ticket 4711"])
def test_machine_that_was_drained_before_is_left_to_whoever_did(
    source: Source, controller: Controller, reason: str
) -> None:
    controller.nodes("IDLE+DRAIN", reason)
    answer = health(source)

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, answer=answer)

    assert done.returncode == 0, words(done)
    assert posts(source) == [("POST", "redeploy")]
    assert controller.updates == []
    assert f"Moved and healthy, but drained before this run, so they stay drained: compute-3: {reason}." in words(done)
    assert "Moved and resumed: none." in words(done)


@pytest.mark.thorough
def test_machine_whose_slurmd_is_not_heard_is_not_called_at_work(source: Source, controller: Controller) -> None:
    controller.nodes("IDLE+DRAIN+NOT_RESPONDING", "hpcai: replace: its hardware is faulty")
    answer = health(source)

    done = replace(
        source,
        controller,
        hpcai_replace="compute-3",
        hpcai_replace_confirm=True,
        hpcai_connect_timeout=2,
        answer=answer,
    )

    assert done.returncode != 0
    assert "their slurmd does not answer slurmctld, so they stay drained: compute-3." in words(done)
    assert "Moved and resumed: none." in words(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize("status", [409, 403])
def test_what_azure_refuses_is_told_with_what_can_be_done(source: Source, controller: Controller, status: int) -> None:
    source.simulator.add_fault("POST .*/redeploy", status=status, code="AllocationFailed", message="No room for it.")

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert done.returncode != 0
    said = words(done)
    assert "could not redeploy the instances 3 of scale set compute of resource group" in said
    assert f"{status} AllocationFailed: No room for it." in said
    assert "compute-3: drained and without jobs." in said
    assert "scontrol update NodeName=compute-3 State=RESUME" in said
    assert "Wait for slurmd" not in said
