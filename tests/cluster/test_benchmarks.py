# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""benchmark.yml on the simulated cluster: real Slurm, Open MPI, NetPIPE, HPL (in HPC Challenge), fio, at small sizes.

What needs a GPU (NCCL, GEMM) is tested in tests/unit on recorded outputs. BeeGFS is a stand-in, whose mount is real.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulated.cluster import Cluster, Recap
from simulated.node import Node, wait_for
from simulated.own_cluster import IMAGE_FILES, simulated

NAME, PORT, NETWORK = "benchmarks", 8484, "10.69.0.0/24"
CONTROLLER = "10.69.0.4"
NODES = ("0", "3")
PROGRAMS = "fio netpipe-openmpi hpcc"
SMALL = ["--set", "folder=/tmp", "--set", "size=16M", "--set", "seconds=2", "--set", "jobs=1", "--set", "direct=0"]
"""fio on the node's small disk, which may not support direct I/O."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and two compute nodes."""
    with simulated(NAME, PORT, NETWORK, **IMAGE_FILES) as made:
        yield made


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory of this cluster, configured by site.yml, with the programs on its nodes."""
    made = cluster.write_inventory(tmp_path_factory.mktemp("benchmarks"))
    run = cluster.playbook("playbooks/site.yml", made, HPCAI_BEEGFS_FILES=IMAGE_FILES["HPCAI_BEEGFS_FILES"])
    assert run.rc == 0, run.output
    install = f"DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends {PROGRAMS}"
    for number in NODES:
        Node.of(cluster, CONTROLLER, number).sh(f"apt-get -q update && {install}")
    return made


def benchmark(cluster: Cluster, source: Path, folder: Path, names: str, *options: str, **variables: Any) -> Recap:
    """Run the playbook as an operator, with jobs of alice."""
    given = {
        "hpcai_benchmark": names,
        "hpcai_benchmark_nodes": [f"compute-{number}" for number in NODES],
        "hpcai_benchmark_user": "alice",
        "hpcai_benchmark_options": list(options),
        "hpcai_benchmark_report": str(folder / "page"),
        "hpcai_health_report": str(folder / "health"),
        **variables,
    }
    return cluster.playbook("playbooks/benchmark.yml", source, "-e", json.dumps(given))


def checks_of(folder: Path) -> dict[str, dict[str, Any]]:
    """The results on the page, by host and benchmark."""
    report = json.loads((folder / "page/report.json").read_text(encoding="utf-8"))
    return {node["host_name"]: {check["name"]: check for check in node["checks"]} for node in report["nodes"]}


def wait_until_idle(cluster: Cluster) -> None:
    """Wait until the epilogs of the last jobs have ended. A drained node never becomes idle."""
    cluster.wait_for_nodes(CONTROLLER, {f"compute-{number}": "idle" for number in NODES})


def left_files(cluster: Cluster) -> list[str]:
    """The files of benchmarks that are left on each node."""
    find = "find /tmp /scratch -name 'hpcai-bench-*'"
    return [Node.of(cluster, CONTROLLER, number).sh(find, check=False) for number in NODES]


def bench(*words: str) -> str:
    """A command line of ``hpcnode bench`` for the controller."""
    return f"sudo -u alice hpcnode bench {' '.join(words)} --nodes compute-0,compute-3 --json"


def test_mpi_runs_over_two_nodes_and_both_have_the_result(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    run = benchmark(cluster, source, tmp_path, "mpi_latency,mpi_bandwidth")
    assert run.rc == 0, run.output
    for checks in checks_of(tmp_path).values():
        assert checks["mpi_latency"]["verdict"] == "pass", checks["mpi_latency"]
        assert checks["mpi_latency"]["readings"][0]["value"] > 0
        assert checks["mpi_bandwidth"]["readings"][0]["value"] > 0
        assert "NetPIPE" in checks["mpi_latency"]["summary"]


@pytest.mark.usefixtures("source")
def test_mpi_runs_over_ucx_with_the_variables_of_nodes_with_infiniband(cluster: Cluster) -> None:
    # With the first variable, MPI fails if it cannot use UCX, as it does by default without adapters of Mellanox.
    given = ("pml=ucx", "btl=^openib,smcuda", "opal_common_ucx_tls=any", "opal_common_ucx_devices=any")
    words = bench("mpi_bandwidth", *(f"--env OMPI_MCA_{one}" for one in given))
    shown = json.loads(cluster.ssh(CONTROLLER, words, check=False))
    assert shown["verdict"] == "pass", shown["runs"]


def test_hpl_solves_its_system_on_each_node(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    run = benchmark(cluster, source, tmp_path, "hpl", "--program", "hpcc", "--set", "order=256", "--set", "ranks=2")
    assert run.rc == 0, run.output
    found = checks_of(tmp_path)
    assert len(found) == len(NODES)
    for checks in found.values():
        assert checks["hpl"]["verdict"] == "pass", checks["hpl"]
        assert "the result is correct" in checks["hpl"]["summary"]


def test_storage_and_memory_are_measured_on_each_node_and_leave_nothing(
    cluster: Cluster, source: Path, tmp_path: Path
) -> None:
    run = benchmark(cluster, source, tmp_path, "scratch,stream", *SMALL)
    assert run.rc == 0, run.output
    for checks in checks_of(tmp_path).values():
        assert {reading["name"] for reading in checks["scratch"]["readings"]} == {"scratch_read", "scratch_write"}
        assert checks["stream"]["readings"][0]["value"] > 0
    assert left_files(cluster) == ["", ""]
    wait_until_idle(cluster)


@pytest.mark.usefixtures("source")
def test_beeond_is_measured_on_both_nodes_at_once_through_its_mount(cluster: Cluster) -> None:
    small = " ".join(SMALL[2:])
    shown = json.loads(cluster.ssh(CONTROLLER, bench("beeond", "--slurm=--constraint=beeond", small)))
    (run,) = shown["runs"]
    assert run["nodes"] == ["compute-0", "compute-3"]
    assert {reading["name"]: reading["value"] > 0 for reading in run["readings"]} == {
        f"beeond_{way}{total}": True for way in ("read", "write") for total in ("", "_total")
    }
    # In a job without the constraint there is no BeeGFS, and nothing is measured on the node's own disk instead.
    shown = json.loads(cluster.ssh(CONTROLLER, bench("beeond", small), check=False))
    assert shown["verdict"] == "unknown"
    assert "/beeond is not mounted" in shown["runs"][0]["summary"]


@pytest.mark.parametrize("signal_name", ["TERM", "KILL"])
@pytest.mark.usefixtures("source")
def test_an_interrupted_run_ends_its_jobs_and_leaves_no_files(cluster: Cluster, signal_name: str) -> None:
    def running() -> int:
        return len(cluster.ssh(CONTROLLER, "squeue --noheader --states=running").splitlines())

    wait_until_idle(cluster)
    words = bench("run", "scratch", *SMALL, "--set", "seconds=100")
    cluster.ssh(CONTROLLER, f"nohup {words} >/tmp/interrupted 2>&1 </dev/null &")
    wait_for(lambda: running() == 2 and all(left_files(cluster)), 90, lambda: left_files(cluster))
    cluster.ssh(CONTROLLER, f"sudo pkill -{signal_name} -u alice -f 'hpcnode bench run'")
    # Without an interruption, they run for 200 s more.
    wait_for(lambda: running() == 0, 30, running)
    wait_until_idle(cluster)
    assert left_files(cluster) == ["", ""]


def test_a_program_that_is_missing_is_unknown_and_drains_no_node(
    cluster: Cluster, source: Path, tmp_path: Path
) -> None:
    run = benchmark(cluster, source, tmp_path, "hpl", "--program", "no-such-program", hpcai_benchmark_fail_on="fail")
    assert run.rc == 0, run.output
    assert {checks["hpl"]["verdict"] for checks in checks_of(tmp_path).values()} == {"unknown"}
    wait_until_idle(cluster)


def test_a_node_with_a_job_is_left_out_and_its_job_is_not_disturbed(
    cluster: Cluster, source: Path, tmp_path: Path
) -> None:
    wait_until_idle(cluster)
    submit = "cd /tmp && sudo -u alice sbatch --parsable --nodelist=compute-3 --exclusive --wrap 'sleep 300'"
    job = cluster.ssh(CONTROLLER, submit).strip()

    def shown() -> str:
        return cluster.ssh(CONTROLLER, f"squeue --noheader --format=%T --jobs={job}").strip()

    try:
        wait_for(lambda: shown() == "RUNNING", 60, shown)
        run = benchmark(cluster, source, tmp_path, "stream")
        assert run.rc == 0, run.output
        assert len(checks_of(tmp_path)) == 1
        assert shown() == "RUNNING"
    finally:
        cluster.ssh(CONTROLLER, f"sudo scancel {job}")


def test_the_results_are_kept_and_the_health_report_shows_them(cluster: Cluster, source: Path, tmp_path: Path) -> None:
    assert benchmark(cluster, source, tmp_path, "stream").rc == 0
    health = {"hpcai_health_report": str(tmp_path / "health"), "hpcai_health_fail_on": "never"}
    run = cluster.playbook("playbooks/health_check.yml", source, "-e", json.dumps(health))
    assert run.rc == 0, run.output
    report = json.loads((tmp_path / "health/report.json").read_text(encoding="utf-8"))
    for node in report["nodes"]:
        assert "bench_stream" in [check["name"] for check in node["checks"]]
    kept = cluster.ssh(CONTROLLER, "sudo -u alice hpcnode bench results compute-0")
    assert "stream: pass" in kept
