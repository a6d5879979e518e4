# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes replace.yml selects, and when it refuses: no confirmation, a reimage, running jobs, no arbiter."""

from __future__ import annotations

from typing import Any

import pytest

from .reading import Source, facts
from .replacing import FAILING_SQUEUE, Controller, output_of, replace, write_requests


@pytest.mark.thorough
def test_marked_machines_are_selected_by_default(source: Source, controller: Controller) -> None:
    vm_id = facts(source.read(include_vms="tagged"), "compute000000")["azure_vm_id"]
    controller.mark(vm_id.upper(), "99999999-0000-4000-8000-000000000000")

    done = replace(source, controller)

    assert "wipes their local disks: compute-0. Nothing was done." in output_of(done)
    assert write_requests(source) == []


@pytest.mark.thorough
def test_without_marked_machines_nothing_is_done(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace_confirm=True)

    assert done.returncode == 0, output_of(done)
    assert "No node is to be replaced." in output_of(done)
    assert write_requests(source) == []


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "does not report which nodes are marked: hpcnode does not run there."),
        (
            {"schema": 1, "command": "arbiter", "status": 2, "error": "no FILE: no arbiter runs here"},
            "does not report which nodes are marked: no FILE: no arbiter runs here.",
        ),
        (
            {"schema": 1, "command": "arbiter", "status": 2, "replace": [], "runs": False},
            "it has not run recently, see 'systemctl status hpcai-health-arbiter'.",
        ),
    ],
)
def test_without_a_report_of_the_arbiter_the_run_fails(
    source: Source, controller: Controller, status: dict[str, Any] | None, expected: str
) -> None:
    controller.set_status(status)

    done = replace(source, controller, hpcai_replace_confirm=True)

    assert done.returncode != 0
    assert expected in output_of(done)
    assert "-e hpcai_replace=compute-3" in output_of(done)
    assert write_requests(source) == []


@pytest.mark.thorough
def test_check_mode_reports_the_selected_nodes(source: Source, controller: Controller) -> None:
    done = replace(source, controller, "--check", hpcai_replace="compute-3")

    assert done.returncode == 0, output_of(done)
    assert "To be replaced: compute-3." in output_of(done)
    assert "Nothing was changed." in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.daily(1)
@pytest.mark.parametrize("how", ["redeploy", "delete"])
def test_check_mode_names_the_jobs_that_a_run_would_wait_for(source: Source, controller: Controller, how: str) -> None:
    (controller.folder / "jobs").write_text("4711|alice|RUNNING|compute-3\n", encoding="utf-8")

    done = replace(source, controller, "--check", hpcai_replace="compute-3", hpcai_replace_how=how)

    assert done.returncode == 0, output_of(done)
    assert "Would wait for: compute-3 (4711 (alice, running))." in output_of(done)
    assert "stay drained" not in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.thorough
def test_the_wait_for_jobs_survives_one_failure_of_slurmctld(source: Source, controller: Controller) -> None:
    (controller.folder / "squeue").write_text(FAILING_SQUEUE, encoding="utf-8")

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert write_requests(source) == [("POST", "redeploy")], output_of(done)
    assert (controller.folder / "calls").read_text(encoding="utf-8").count("\n") == 3


@pytest.mark.thorough
def test_a_permanent_failure_of_slurmctld_ends_the_wait_with_its_error(source: Source, controller: Controller) -> None:
    away = FAILING_SQUEUE.replace("2)", "*)")
    (controller.folder / "squeue").write_text(away, encoding="utf-8")

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, hpcai_replace_timeout=1)

    assert done.returncode != 0
    assert "Unable to contact slurm controller" in output_of(done)
    assert write_requests(source) == []


def test_a_node_with_jobs_is_not_moved(source: Source, controller: Controller) -> None:
    (controller.folder / "jobs").write_text("4711|alice|RUNNING|compute-3\n", encoding="utf-8")

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, hpcai_replace_timeout=0)

    assert done.returncode != 0
    assert "Jobs still run on compute-3: 4711 (alice, running). Nothing was killed." in output_of(done)
    assert "'scontrol update NodeName=compute-3 State=RESUME'" in output_of(done)
    assert write_requests(source) == []


@pytest.mark.thorough
def test_a_deletion_requires_confirmation_too(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_how="delete")

    assert done.returncode != 0
    assert "have ended, deleted and replaced by new instances: compute-3. Nothing was done." in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.thorough
def test_a_node_with_jobs_is_not_deleted(source: Source, controller: Controller) -> None:
    done = replace(
        source, controller, hpcai_replace="compute-3", hpcai_replace_how="delete", hpcai_replace_confirm=True
    )

    assert done.returncode != 0
    reason = "hpcai: retire: its hardware is faulty, a new instance will come"
    assert controller.updates == [f"update NodeName=compute-3 State=DRAIN Reason={reason}"], output_of(done)
    assert "Jobs still run on compute-3 after 0 s: 4711 (alice, running). Nothing was killed." in output_of(done)
    assert write_requests(source) == []
    assert source.simulator.scale_set("compute").capacity == 3


def test_a_deletion_without_a_replacement_is_refused_before_any_drain(source: Source, controller: Controller) -> None:
    alone = min(host for host in source.read(include_vms="tagged").hosts if host.startswith("flex"))

    done = replace(source, controller, hpcai_replace=alone, hpcai_replace_how="delete", hpcai_replace_confirm=True)

    assert done.returncode != 0
    assert ": not in a Uniform scale set, so Azure would create no replacement. Use redeploy. Nothing" in output_of(
        done
    )
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.thorough
def test_an_instance_that_does_not_exist_cannot_be_moved(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-5", hpcai_replace_confirm=True)

    assert done.returncode != 0
    assert "compute-5: there is no such instance (any more), so nothing can be moved." in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.thorough
def test_a_stopped_machine_does_not_count_as_deleted(source: Source, controller: Controller) -> None:
    calls = source.simulator.compute().virtual_machine_scale_set_vms
    calls.begin_power_off("hpcai-sim", "compute", "3").result()

    done = replace(source, controller, hpcai_replace="compute-3")

    assert "wipes their local disks: compute-3. Nothing was done." in output_of(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    ("variables", "flags", "expected"),
    [
        ({"hpcai_replace_how": "reimage"}, (), "a reimage keeps the machine on its physical host"),
        ({"hpcai_replace_how": "hammer"}, (), "must be redeploy or delete, not hammer"),
        ({}, ("--limit", "ctl"), "run this without --limit"),
    ],
)
def test_reimage_and_limit_are_refused(
    source: Source, controller: Controller, variables: dict[str, Any], flags: tuple[str, ...], expected: str
) -> None:
    done = replace(source, controller, *flags, hpcai_replace="compute-3", hpcai_replace_confirm=True, **variables)

    assert done.returncode != 0
    assert expected in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])


@pytest.mark.thorough
def test_most_of_a_scale_set_requires_force(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-[0,3]", hpcai_replace_confirm=True)

    assert done.returncode != 0
    assert "To do this anyway: -e hpcai_replace_force=true." in output_of(done)
    assert (controller.updates, write_requests(source)) == ([], [])
