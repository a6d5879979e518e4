# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""replace.yml hands nodes of elastic sets to their daemon, which deletes the machines by their vmIds."""

from __future__ import annotations

import json

import pytest

from .reading import Source
from .replacing import Controller, output_of, replace, write_requests

VM_ID = "11111111-2222-4333-8444-555555555555"
GPU = {"gpu": {"id": "/subscriptions/x/virtualMachineScaleSets/gpu", "vm_size": "Standard_ND96asr_v4", "max": 4}}


@pytest.fixture
def daemon(controller: Controller) -> Controller:
    """A controller with an elastic set, whose node gpu-1 has a machine."""
    slots = [{"slot": "gpu-0"}, {"slot": "gpu-1", "vm_id": VM_ID, "instance": "7"}]
    status = {"schema": 1, "command": "elastic", "status": 0, "runs": True, "sets": {"gpu": {"slots": slots}}}
    (controller.folder / "elastic").write_text(json.dumps(status), encoding="utf-8")
    return controller


def retired(controller: Controller) -> str:
    """What the daemon was asked for."""
    file = controller.folder / "retired"
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_an_elastic_node_is_retired_by_its_vm_id_after_a_confirmation(source: Source, daemon: Controller) -> None:
    asked = replace(source, daemon, hpcai_replace="gpu-[0-1]", hpcai_elastic=GPU)
    assert "These elastic nodes would lose their machines: gpu-0, gpu-1." in output_of(asked), output_of(asked)
    assert not retired(daemon)

    done = replace(source, daemon, hpcai_replace="gpu-[0-1]", hpcai_elastic=GPU, hpcai_replace_confirm=True)

    assert done.returncode == 0, output_of(done)
    assert "Retired: gpu-1." in output_of(done)
    assert retired(daemon).rstrip().endswith(VM_ID)
    assert write_requests(source) == []


def test_a_daemon_that_does_not_run_is_an_error(source: Source, daemon: Controller) -> None:
    status = json.loads((daemon.folder / "elastic").read_text(encoding="utf-8"))
    # Its last record is older than the machine of the node.
    old = {**status, "runs": False, "sets": {"gpu": {"slots": [{"slot": "gpu-1"}]}}}
    (daemon.folder / "elastic").write_text(json.dumps(old), encoding="utf-8")

    done = replace(source, daemon, hpcai_replace="gpu-1", hpcai_elastic=GPU, hpcai_replace_confirm=True)

    assert done.returncode != 0, output_of(done)
    assert "hpcai-elastic has not run recently" in output_of(done)
    assert not retired(daemon)


@pytest.mark.thorough
def test_a_marked_machine_of_an_elastic_set_is_retired(source: Source, daemon: Controller) -> None:
    marked = [{"node": "gpu-1", "vm_id": VM_ID, "host": "x", "reason": "hpcai: health: replace"}]
    daemon.set_status({"schema": 1, "command": "arbiter", "status": 1, "replace": marked, "runs": True})

    done = replace(source, daemon, hpcai_elastic=GPU, hpcai_replace_confirm=True)

    assert done.returncode == 0, output_of(done)
    assert retired(daemon).rstrip().endswith(VM_ID)


@pytest.mark.thorough
def test_check_mode_retires_nothing(source: Source, daemon: Controller) -> None:
    done = replace(source, daemon, "--check", hpcai_replace="gpu-1", hpcai_elastic=GPU)

    assert done.returncode == 0, output_of(done)
    assert "Would be retired: gpu-1." in output_of(done)
    assert not retired(daemon)
