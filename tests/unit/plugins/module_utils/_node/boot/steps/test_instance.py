# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Step instance: the machine's identity, its cluster, and boots without the metadata service."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.step import Context, Outcome, StepFailed
from ansible_collections.hpcai.azure.plugins.module_utils._node.boot.steps import instance
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import FAIL, PASS, UNKNOWN, WARN
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.cluster_settings import cluster_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.config import ConfigError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.imds import ImdsError
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.run import Result
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.slurmd_env import ENV_FILE

HPCAI: dict[str, Any] = {
    "schema": 1,
    "cluster": "training",
    "functions": ["compute"],
    "controllers": ["10.0.0.4"],
    "key": {"source": "push"},
}
EXPECTED_OPTIONS = 'SLURMD_OPTIONS="-N gpu-17 --conf-server 10.0.0.4"'
SITE_ENV = '#\n# Ansible managed\n#\nSLURMD_OPTIONS="-N by-hand --conf-server 10.0.0.9"\n'


class Running(Root):
    """A folder that counts as the running machine's root."""

    is_this_machine = True

    def at(self, path: str) -> str:
        return f"{self.path}{path}"


@pytest.fixture
def root(tmp_path: Path) -> Running:
    """A machine that has only the UUID of its firmware."""
    machine = Running(str(tmp_path))
    write(machine, "/sys/class/dmi/id/product_uuid", "AAAA")
    return machine


def write(root: Root, path: str, document: Any) -> None:
    """Write a file of the machine."""
    file = Path(root.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")


def compute(hpcai: Any = None, **changed: Any) -> dict[str, Any]:
    """Return an answer of the metadata service."""
    text = json.dumps({"hpcai": hpcai}) if hpcai is not None else ""
    return {
        "name": "gpu_17",
        "vmScaleSetName": "gpu",
        "vmSize": "Standard_ND96asr_v4",
        "vmId": "1-2-3",
        "osProfile": {"computerName": "gpu00000H"},
        "userData": base64.b64encode(text.encode()).decode(),
        **changed,
    }


def never(_command: Any) -> Result:
    """Fail: the step must run no command."""
    raise AssertionError("a command was run")


def perform(root: Root, answer: dict[str, Any] | None, check: bool = False, seconds: float = 80) -> Outcome:
    """Do the step; answer=None means that the metadata service is not available."""

    def ask(limit_s: float) -> dict[str, Any]:
        if answer is None:
            raise ImdsError(f"the metadata service gave no answer in {limit_s:g} s: timed out.")
        return answer

    return instance.perform(Context(root, never, check, seconds), ask)


def test_a_node_joins_the_cluster_of_its_user_data(root: Running) -> None:
    outcome = perform(root, compute(HPCAI))
    assert (outcome.verdict, outcome.action) == (PASS, "")
    assert outcome.summary == "Standard_ND96asr_v4 in cluster training by user data"
    assert outcome.changes == (f"wrote {ENV_FILE}: node gpu-17, controller 10.0.0.4",)
    assert EXPECTED_OPTIONS in (root.text(ENV_FILE) or "")
    cluster = cluster_of(root)
    assert cluster is not None
    assert cluster.name == "training"


def test_a_second_run_changes_nothing(root: Running) -> None:
    perform(root, compute(HPCAI))
    before = {path: path.stat().st_mtime_ns for path in Path(root.path).rglob("*") if path.is_file()}
    assert perform(root, compute(HPCAI)).changes == ()
    assert {path: path.stat().st_mtime_ns for path in Path(root.path).rglob("*") if path.is_file()} == before


def test_check_mode_reports_changes_and_writes_nothing(root: Running) -> None:
    outcome = perform(root, compute(HPCAI), check=True)
    assert (outcome.verdict, len(outcome.changes)) == (PASS, 1)
    assert [path.name for path in Path(root.path).rglob("*") if path.is_file()] == ["product_uuid"]


def test_changed_user_data_updates_slurmd_env(root: Running) -> None:
    perform(root, compute(HPCAI))
    outcome = perform(root, compute({**HPCAI, "controllers": ["10.0.0.5", "10.0.0.6"]}))
    assert outcome.changes == (f"wrote {ENV_FILE}: node gpu-17, controller 10.0.0.5",)
    assert "--conf-server 10.0.0.5,10.0.0.6" in (root.text(ENV_FILE) or "")


@pytest.mark.parametrize("changed", [None, {**HPCAI, "functions": ["login"]}])
def test_slurmd_env_is_removed_when_a_node_leaves_its_cluster(root: Running, changed: Any) -> None:
    perform(root, compute(HPCAI))
    assert perform(root, compute(changed), check=True).changes == perform(root, compute(changed)).changes != ()
    assert not root.exists(ENV_FILE)
    assert perform(root, compute(changed)).changes == ()


def test_without_a_cluster_the_sites_slurmd_env_stays(root: Running) -> None:
    write(root, ENV_FILE, SITE_ENV)
    assert perform(root, compute()).changes == ()
    assert root.text(ENV_FILE) == SITE_ENV.strip()


def test_without_settings_the_machine_belongs_to_no_cluster(root: Running) -> None:
    outcome = perform(root, compute())
    assert outcome.verdict == PASS
    assert outcome.summary == "Standard_ND96asr_v4 in no cluster: the machine has no user data"
    assert not root.exists(ENV_FILE)
    assert cluster_of(root) is None


def test_foreign_user_data_is_reported_and_no_error(root: Running) -> None:
    script = base64.b64encode(b"#!/bin/sh\necho token=hush\n").decode()
    outcome = perform(root, compute(userData=script))
    assert (outcome.verdict, "the user data is not JSON" in outcome.summary) == (PASS, True)
    assert "hush" not in str(outcome)


@pytest.mark.parametrize("hpcai", [[], {"schema": 9}, {**HPCAI, "typo": 1}, {**HPCAI, "controllers": []}])
def test_malformed_settings_are_an_error_but_the_size_is_recorded(root: Running, hpcai: Any) -> None:
    with pytest.raises(ConfigError, match="user data"):
        perform(root, compute(hpcai))
    assert root.exists("/var/lib/hpcai/instance.json")
    assert not root.exists(ENV_FILE)


def test_files_of_the_playbook_win_over_user_data(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", {**HPCAI, "cluster": "by-playbook"})
    write(root, ENV_FILE, SITE_ENV)
    outcome = perform(root, compute({"schema": 9}))
    assert (outcome.verdict, outcome.changes) == (PASS, ())
    assert "in cluster by-playbook by cluster.json" in outcome.summary
    assert root.text(ENV_FILE) == SITE_ENV.strip()


def test_a_machine_that_runs_no_jobs_gets_no_slurmd_env(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", {**HPCAI, "functions": ["controller"]})
    assert perform(root, compute(vmSize="Standard_Unheard_Of")).verdict == PASS
    assert not root.exists(ENV_FILE)


def test_an_unknown_size_of_a_compute_node_is_unknown(root: Running) -> None:
    outcome = perform(root, compute(HPCAI, vmSize="Standard_ND96asr_v9"))
    assert outcome.verdict == UNKNOWN
    assert "nearest known sizes are Standard_ND96asr_v4" in outcome.summary
    assert "hpcai_vm_sizes" in outcome.summary + outcome.action


def test_a_size_described_in_the_settings_is_known(root: Running) -> None:
    write(root, "/etc/hpcai/node.json", {"schema": 1, "vm_sizes": {"Standard_ND96asr_v9": {"vcpus": 96}}})
    assert perform(root, compute(HPCAI, vmSize="Standard_ND96asr_v9")).verdict == PASS


def test_warns_if_node_json_names_another_size(root: Running) -> None:
    write(root, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "Standard_ND40rs_v2"})
    outcome = perform(root, compute(HPCAI))
    assert outcome.verdict == WARN
    assert "node.json says Standard_ND40rs_v2, the metadata service says Standard_ND96asr_v4" in outcome.summary


def test_without_the_metadata_service_recorded_values_are_used(root: Running) -> None:
    perform(root, compute(HPCAI))
    Path(root.at(ENV_FILE)).unlink()
    outcome = perform(root, None)
    assert outcome.verdict == WARN
    # The wait is short, because an earlier boot recorded all values.
    assert "gave no answer in 20 s: timed out; using the recorded values" in outcome.summary
    assert "in cluster training by user data" in outcome.summary
    assert EXPECTED_OPTIONS in (root.text(ENV_FILE) or "")


def test_without_the_metadata_service_a_new_node_fails(root: Running) -> None:
    with pytest.raises(StepFailed, match=r"timed out, and nothing else identifies this machine\. Wait"):
        perform(root, None)


def test_without_the_metadata_service_the_playbooks_files_are_enough(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", HPCAI)
    write(root, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "Standard_ND96asr_v4"})
    with pytest.raises(StepFailed, match="did not provide this node's name"):
        perform(root, None)
    write(root, ENV_FILE, SITE_ENV)
    outcome = perform(root, None)
    # The wait is short, because nothing depends on the answer.
    assert (outcome.verdict, "no answer in 20 s" in outcome.summary) == (WARN, True)


def test_without_the_metadata_service_a_controller_needs_no_slurmd_env(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", {**HPCAI, "functions": ["controller"]})
    write(root, "/etc/hpcai/node.json", {"schema": 1, "vm_size": "Standard_ND96asr_v4"})
    outcome = perform(root, None)
    assert (outcome.verdict, "no answer in 20 s" in outcome.summary) == (WARN, True)


def test_without_the_metadata_service_an_unknown_size_fails(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", HPCAI)
    write(root, ENV_FILE, SITE_ENV)
    outcome = perform(root, None)
    assert (outcome.verdict, "VM size of this machine is not known" in outcome.summary) == (FAIL, True)


def test_records_of_another_machine_do_not_identify_this_one(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", HPCAI)
    write(root, ENV_FILE, SITE_ENV)
    perform(root, compute())
    write(root, "/sys/class/dmi/id/product_uuid", "BBBB")
    with pytest.raises(StepFailed, match="the records on this disk belong to another machine"):
        perform(root, None)


def test_a_captured_disk_without_cluster_loses_its_slurmd_env(root: Running) -> None:
    write(root, ENV_FILE, SITE_ENV)
    perform(root, compute())
    assert root.exists(ENV_FILE)
    perform(root, compute(vmId="4-5-6"))
    assert not root.exists(ENV_FILE)


def test_a_captured_disk_gets_the_new_machines_name(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", HPCAI)
    write(root, ENV_FILE, SITE_ENV)
    perform(root, compute())
    outcome = perform(root, compute(name="gpu_18", vmId="4-5-6"))
    assert (outcome.verdict, "this disk belonged to another machine" in outcome.summary) == (WARN, True)
    assert "-N gpu-18 " in (root.text(ENV_FILE) or "")
    assert perform(root, compute(name="gpu_18", vmId="4-5-6")).verdict == PASS


def test_a_captured_disk_gets_the_new_machines_cluster(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", {**HPCAI, "cluster": "old"})
    perform(root, compute())
    new = compute({**HPCAI, "cluster": "new"}, name="gpu_18", vmId="4-5-6")
    assert "in cluster new by user data" in perform(root, new, check=True).summary
    assert root.exists("/etc/hpcai/cluster.json")
    outcome = perform(root, new)
    assert "moved /etc/hpcai/cluster.json of another machine aside" in outcome.changes
    cluster = cluster_of(root)
    assert cluster is not None
    assert cluster.name == "new"
    assert not root.exists("/etc/hpcai/cluster.json")
    assert root.exists(instance.SET_ASIDE)


def test_the_case_of_the_vm_id_does_not_matter(root: Running) -> None:
    perform(root, compute(HPCAI, vmId="aaaa-BBBB"))
    assert perform(root, compute(HPCAI, vmId="AAAA-bbbb")).verdict == PASS


def test_a_broken_settings_file_is_named(root: Running) -> None:
    write(root, "/etc/hpcai/cluster.json", "{broken")
    with pytest.raises(ConfigError, match=r"/etc/hpcai/cluster\.json is not valid JSON"):
        perform(root, compute(HPCAI))


def test_a_full_disk_leaves_the_old_file(root: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    perform(root, compute(HPCAI))
    before = root.text(ENV_FILE)

    def full(*_arguments: Any, **_named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        perform(root, compute({**HPCAI, "controllers": ["10.0.0.5"]}))
    assert root.text(ENV_FILE) == before


def test_the_time_limit_covers_an_outage_of_the_metadata_service() -> None:
    assert instance.STEP.limit_s - instance.MARGIN_S > 70
    assert (instance.STEP.name, instance.STEP.blocking) == ("instance", True)
