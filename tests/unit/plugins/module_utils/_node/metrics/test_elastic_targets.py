# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which machines of elastic sets Prometheus scrapes: the service writes them where Prometheus reads its targets."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import status
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import serve
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.settings import Settings, Targets

NODES = "NodeName=spot-0 NodeAddr=10.0.0.7 State=IDLE+CLOUD\nNodeName=spot-1 NodeAddr=127.0.0.1 State=IDLE+CLOUD\n"
SLOTS = [{"slot": f"spot-{number}", "state": "joined", "vm_id": f"id{number}"} for number in (0, 1, 2)]
HELD = {"schema": status.SCHEMA, "sets": {"spot": {"slots": SLOTS}}}
LABELS = {"instance": "spot-0", "node": "spot-0", "function": "compute", "set": "spot", "vm_id": "id0"}
FILES = ("/targets/elastic.json", "/targets/elastic_dcgm.json")


def test_targets_of_elastic_sets_are_those_with_a_lease_and_an_address() -> None:
    assert serve.elastic_targets(NODES, HELD, 9100) == [{"targets": ["10.0.0.7:9100"], "labels": LABELS}]
    assert serve.elastic_targets(NODES, None, 9100) == []
    leaving = {"sets": {"spot": {"slots": [{**SLOTS[0], "state": "leaving"}]}}}
    assert serve.elastic_targets(NODES, leaving, 9100) == []


@pytest.mark.parametrize("dcgm", [True, False], ids=["dcgm-exporter", "no dcgm-exporter"])
def test_the_service_writes_both_files_of_targets(tmp_path: pathlib.Path, dcgm: bool) -> None:
    """Without the counters of dcgm-exporter, no GPU of an elastic set is ever held but idle."""
    root = Root(str(tmp_path))
    path = pathlib.Path(root.at(status.STATUS_FILE))
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(HELD), encoding="utf-8")
    settings = Settings(
        folder="/metrics",
        slurm=True,
        elastic_targets=FILES[0],
        elastic_dcgm=Targets(FILES[1], 9400) if dcgm else None,
    )

    def run(words: Sequence[str]) -> Result:
        return Result(tuple(words), 0, NODES if "nodes" in words else "", "")

    done = iter([False] + [True] * 100)
    lines = list(serve.serve(root, run, settings, lambda: next(done)))
    assert not [line for line in lines if "targets" in line]
    found: dict[str, Any] = {
        name: json.loads(pathlib.Path(root.at(name)).read_text(encoding="utf-8"))
        for name in FILES
        if pathlib.Path(root.at(name)).exists()
    }
    ports = dict(zip(FILES, (9100, 9400) if dcgm else (9100,), strict=False))
    assert found == {name: [{"targets": [f"10.0.0.7:{port}"], "labels": LABELS}] for name, port in ports.items()}
