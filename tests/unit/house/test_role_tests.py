# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each role has a test that uses testinfra to check what the role did on a node."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

import pytest

MOLECULE, CLUSTER = "molecule/cluster/tests", "tests/cluster"
TESTS = {
    "beeond": f"{MOLECULE}/test_beeond.py::test_only_the_failed_node_is_drained_and_the_job_is_requeued",
    "blob_staging": f"{MOLECULE}/test_cluster.py::test_azcopy_and_its_settings_belong_to_root_and_grants_are_private",
    "cluster": f"{MOLECULE}/test_cluster.py::test_all_machines_have_the_settings_of_the_same_cluster",
    "elastic": f"{CLUSTER}/test_elastic.py::test_the_daemon_runs_and_no_user_gives_it_orders",
    "enroot_pyxis": f"{MOLECULE}/test_containers.py::test_no_folder_is_world_writable_without_the_sticky_bit",
    "gpu": "molecule/node/tests/test_node.py::test_gpus_are_detected_and_run_at_their_highest_clocks",
    "health_checks": f"{MOLECULE}/test_health.py::test_healthy_nodes_report_and_stay_in_scheduling",
    "image": "molecule/node/tests/test_node.py::test_the_image_is_configured_for_large_jobs",
    "monitoring": f"{CLUSTER}/test_monitoring.py::test_the_servers_run_on_the_controller_and_exporters_everywhere",
    "nccl": "molecule/node/tests/test_node.py::test_shells_get_nccl_variables_and_jobs_can_override_them",
    "node_tools": f"{MOLECULE}/test_cluster.py::test_hpcnode_works_on_every_machine",
    "portal": f"{CLUSTER}/test_portal.py::test_secrets_are_neither_readable_nor_logged",
    "provision": f"{CLUSTER}/test_provisioned_site.py::test_site_configures_it_and_a_job_runs",
    "scratch": "molecule/node/tests/test_node.py::test_scratch_on_the_temporary_disk_is_a_warning",
    "shared_fs": "molecule/node/tests/test_node.py::test_external_file_systems_are_mounted_on_first_access",
    "slurm": f"{MOLECULE}/test_cluster.py::test_services_run_where_they_belong_and_start_at_boot",
    "training": f"{CLUSTER}/test_oldest_nodes.py::test_the_recipes_and_trainers_belong_to_root",
}


def reads(node: ast.AST, hosts: set[str]) -> bool:
    """Whether an expression uses one of these names, or gets a host of a cluster."""
    return any(
        (isinstance(one, ast.Name) and one.id in hosts)
        or (isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "host")
        for one in ast.walk(node)
    )


def names(target: ast.AST) -> set[str]:
    """The names in the target of an assignment."""
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}


def uses_testinfra(test: ast.FunctionDef) -> bool:
    """Whether a test asserts something that it got from a host of testinfra."""
    hosts = {one.arg for one in test.args.args if one.annotation and "Host" in names(one.annotation)}
    # In the order of the lines, because a later line can use a name of an earlier one.
    for node in sorted((one for one in ast.walk(test) if hasattr(one, "lineno")), key=lambda one: one.lineno):
        if isinstance(node, ast.Assert) and reads(node.test, hosts):
            return True
        if isinstance(node, ast.For) and reads(node.iter, hosts):
            hosts |= names(node.target)
        if isinstance(node, ast.Assign) and reads(node.value, hosts):
            hosts |= {name for target in node.targets for name in names(target)}
    return False


def functions_in(source: str) -> Iterator[ast.FunctionDef]:
    """The test functions of a file."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("(node: Host): assert node.file('/x').exists", True),
        ("(computes: list[Host]):\n for one in computes:\n  found = one.file('/x')\n  assert found.exists", True),
        ("(cluster: Cluster):\n host = cluster.host('10.0.0.4')\n assert host.service('x').is_enabled", True),
        ("(cluster: Cluster): assert cluster.ssh('10.0.0.4', 'ls')", False),
        ("(node: Host):\n node.check_output('true')\n assert 1", False),
    ],
)
def test_an_assertion_with_testinfra_is_recognized(test: str, expected: bool) -> None:
    (found,) = functions_in(f"def test_it{test}")
    assert uses_testinfra(found) is expected


def test_each_role_has_a_test_with_testinfra(repository: pathlib.Path) -> None:
    assert sorted(TESTS) == sorted(path.name for path in (repository / "roles").iterdir() if path.is_dir())
    for role, where in TESTS.items():
        file, name = where.split("::")
        found = {one.name: one for one in functions_in((repository / file).read_text(encoding="utf-8"))}
        assert name in found, f"{role}: {file} has no test {name}"
        assert uses_testinfra(found[name]), f"{role}: {where} asserts nothing that it got from a host of testinfra"
