# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""replace.yml moves the selected nodes, checks them, and resumes the healthy ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from simulator import console
from simulator.resources import Instance

from .lists import INSTANCES
from .reading import Source
from .replacing import Controller, health, output_of, replace, task_output, write_requests


@pytest.mark.thorough
def test_without_confirmation_nothing_is_done(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3")

    assert done.returncode != 0
    assert "moved to other physical hosts, which wipes their local disks: compute-3. Nothing was done." in output_of(
        done
    )
    assert "-e hpcai_replace_confirm=true" in output_of(done)
    assert controller.updates == []
    assert write_requests(source) == []


def test_a_moved_node_that_does_not_answer_stays_drained(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    reason = "hpcai: replace: its hardware is faulty, it will be moved to another host"
    assert controller.updates == [f"update NodeName=compute-3 State=DRAIN Reason={reason}"], output_of(done)
    assert write_requests(source) == [("POST", "redeploy")]
    assert "3" in source.simulator.scale_set("compute").members
    # The node does not answer, so its health is unknown.
    assert done.returncode != 0
    assert "Moved, but a check fails or they do not answer, so they stay drained: compute-3." in output_of(done)


def ephemeral(source: Source) -> None:
    """Give the machines of the Uniform set ephemeral system disks."""
    scale_set = source.simulator.scale_set("compute")
    scale_set.profile["storageProfile"]["osDisk"]["diffDiskSettings"] = {"option": "Local"}


@contextmanager
def boots_late(source: Source, instance: Instance) -> Iterator[None]:
    """Let the console show the log of the old system until it has been read after the redeployment."""
    instance.console_log = console.log(instance).decode()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            paths = [item["path"].lower() for item in source.simulator.requests()]
            moved = next((number for number, path in enumerate(paths) if path.endswith("/redeploy")), len(paths))
            if any("/bootdiagnostics/" in path for path in paths[moved:]):
                instance.console_log = None

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_moved_machine_with_an_ephemeral_system_disk_has_new_host_keys(
    source: Source, controller: Controller
) -> None:
    ephemeral(source)
    known = source.path.parent / "known_hosts"
    instance = source.simulator.instance("compute_3")
    (before,) = instance.host_keys
    known.write_text(f"{instance.vm_id} {before}\n", encoding="utf-8")
    options: dict[str, Any] = {"hpcai_key_source": "key_vault", "hpcai_known_hosts": str(known)}
    options["hpcai_replace_boot"] = 10

    with boots_late(source, instance):
        done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, **options)

    (key,) = instance.host_keys
    assert key != before
    lines = [line for line in known.read_text(encoding="utf-8").splitlines() if line.startswith(instance.vm_id)]
    assert lines == [f"{instance.vm_id} {key.removesuffix(' root@localhost')}"], output_of(done)
    assert "ctl: waiting for the host keys on 1 console, " in output_of(done)
    assert "With a new system disk, made from the image: compute-3. Run site.yml" in output_of(done)


def test_a_machine_with_an_ephemeral_system_disk_is_not_moved_if_it_would_not_come_back(
    source: Source, controller: Controller
) -> None:
    ephemeral(source)

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert done.returncode != 0
    assert "The system disk of compute-3 is ephemeral" in output_of(done)
    assert controller.updates == []
    assert write_requests(source) == []


def test_a_machine_whose_system_disk_is_unknown_is_not_moved(source: Source, controller: Controller) -> None:
    source.simulator.add_fault(INSTANCES, action="strip", fields=["properties.storageProfile"])

    done = replace(
        source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, hpcai_key_source="key_vault"
    )

    assert done.returncode != 0
    assert "It is not known whether the system disk of compute-3 is ephemeral." in output_of(done)
    assert controller.updates == []
    assert write_requests(source) == []


@pytest.mark.thorough
def test_checks_are_skipped_on_a_machine_that_does_not_answer(source: Source, controller: Controller) -> None:
    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert "timed out" in task_output(done, "Wait for ssh"), output_of(done)
    for name in ("Wait for slurmd", "Run the checks"):
        assert "skipping: [compute000003]" in task_output(done, name), name


@pytest.mark.thorough
def test_a_tag_cannot_add_a_machine_to_the_moved_ones(source: Source, controller: Controller) -> None:
    source.simulator.edit("compute_0", tags={"hpcai_role": "compute,replaced"})

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert "compute000003" in task_output(done, "Run the checks"), output_of(done)
    assert "compute000000" not in task_output(done, "Run the checks")


@pytest.mark.thorough
def test_a_healthy_moved_machine_is_resumed(source: Source, controller: Controller) -> None:
    answer = health(source)

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, answer=answer)

    assert done.returncode == 0, output_of(done)
    assert [update.split()[1:3] for update in controller.updates] == [
        ["NodeName=compute-3", "State=DRAIN"],
        ["NodeName=compute-3", "State=RESUME"],
    ]
    assert "Moved and resumed: compute-3." in output_of(done)


@pytest.mark.thorough
def test_a_machine_that_stays_on_a_bad_host_is_reported(source: Source, controller: Controller) -> None:
    options = {"hpcai_replace": "compute-3", "hpcai_replace_confirm": True}
    bad = health(source, failed="7 of 8 GPUs: 0003:00:00.0 is not there")

    done = replace(source, controller, answer=bad, **options)

    assert done.returncode != 0
    assert "Moved, but a check fails or they do not answer, so they stay drained: compute-3." in output_of(done)
    hosts = json.loads((source.path.parent / "health-report/hosts.json").read_text(encoding="utf-8"))["hosts"]
    assert [fault["summary"] for fault in hosts["GGBB1"]] == [bad["checks"][0]["summary"]]

    again = replace(source, controller, answer=health(source), **options)
    assert again.returncode == 0, output_of(again)
    assert "compute-3 is still on the physical host GGBB1, which had a hardware fault" in output_of(again)
    assert "Moved and resumed: compute-3." in output_of(again)

    elsewhere = replace(source, controller, answer=health(source, host="GGBB2"), **options)
    assert elsewhere.returncode == 0, output_of(elsewhere)
    assert "the physical host" not in output_of(elsewhere)


@pytest.mark.daily(1)
@pytest.mark.parametrize("reason", ["hpcai: health: replace: gpu_count: 7 of 8 GPUs", "bad fan, ticket 4711"])
def test_a_machine_that_was_drained_before_stays_drained(source: Source, controller: Controller, reason: str) -> None:
    controller.set_nodes("IDLE+DRAIN", reason)
    answer = health(source)

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True, answer=answer)

    assert done.returncode == 0, output_of(done)
    assert write_requests(source) == [("POST", "redeploy")]
    assert controller.updates == []
    assert f"Moved and healthy, but drained before this run, so they stay drained: compute-3: {reason}." in output_of(
        done
    )
    assert "Moved and resumed: none." in output_of(done)


@pytest.mark.thorough
def test_a_machine_whose_slurmd_does_not_answer_is_not_resumed(source: Source, controller: Controller) -> None:
    controller.set_nodes("IDLE+DRAIN+NOT_RESPONDING", "hpcai: replace: its hardware is faulty")
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
    assert "their slurmd does not answer slurmctld, so they stay drained: compute-3." in output_of(done)
    assert "Moved and resumed: none." in output_of(done)


@pytest.mark.daily(1)
@pytest.mark.parametrize("status", [409, 403])
def test_a_refusal_by_azure_is_reported_with_advice(source: Source, controller: Controller, status: int) -> None:
    source.simulator.add_fault("POST .*/redeploy", status=status, code="AllocationFailed", message="No room for it.")

    done = replace(source, controller, hpcai_replace="compute-3", hpcai_replace_confirm=True)

    assert done.returncode != 0
    output = output_of(done)
    assert "could not redeploy the instances 3 of scale set compute of resource group" in output
    assert f"{status} AllocationFailed: No room for it." in output
    assert "compute-3: drained and without jobs." in output
    assert "scontrol update NodeName=compute-3 State=RESUME" in output
    assert "Wait for slurmd" not in output
