# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of slurm.conf causes only the restarts that it requires, and running jobs continue.

The tests change slurm.conf on the converged cluster and then run single modules; other tests run site.yml. Afterwards
slurm.conf is restored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

from simulated.cluster import REPOSITORY, Cluster

CONF, KEPT = "/etc/slurm/slurm.conf", "/root/slurm.conf.kept"
END = "/tmp/test-changes-end"
CACHE = "/var/lib/slurm/slurmd/conf-cache/slurm.conf"
RunTasks = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def run_tasks(azure: Cluster, inventory_source: Path, tmp_path_factory: pytest.TempPathFactory) -> RunTasks:
    """Run one task per host pattern, in order and in one playbook run; returns the result of each host."""

    def run(*tasks: tuple[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("plays")
        plays = [{"hosts": host, "gather_facts": False, "become": True, "tasks": [task]} for host, task in tasks]
        (folder / "plays.yml").write_text(json.dumps(plays), encoding="utf-8")
        done = azure.playbook(
            folder / "plays.yml",
            inventory_source,
            HPCAI_RESULTS=str(folder / "results"),
            ANSIBLE_CALLBACK_PLUGINS=str(REPOSITORY / "tests/callback"),
            ANSIBLE_CALLBACKS_ENABLED="results",
        )
        assert done.rc == 0, done.output
        lines = [json.loads(line) for line in (folder / "results").read_text(encoding="utf-8").splitlines()]
        return {line["host"]: line["result"] for line in lines}

    return run


@pytest.fixture(scope="module")
def converge(run_tasks: RunTasks, inventory: dict[str, Any]) -> Callable[[], list[list[str]]]:
    """Run the role's modules for slurmctld and then each slurmd; returns the commands that each host ran."""
    (ctl,), nodes = inventory["hpcai_controller"]["hosts"], inventory["hpcai_compute"]["hosts"]
    of_slurmctld = f"{{{{ hostvars['{ctl}']['answer']['for_slurmd'] }}}}"

    def run() -> list[list[str]]:
        results = run_tasks(
            (ctl, {"hpcai.azure.slurmctld": {}, "register": "answer"}),
            (",".join(nodes), {"hpcai.azure.slurmd": {"controller": of_slurmctld}}),
        )
        return [results[host]["commands"] for host in (ctl, *nodes)]

    return run


@pytest.fixture(scope="module")
def settings(controller: Host, converge: Callable[[], list[list[str]]]) -> Iterator[Callable[..., None]]:
    """Set keys of slurm.conf; the fixture restores the file afterwards."""
    controller.check_output(f"cp {CONF} {KEPT}")

    def put(**wanted: str) -> None:
        lines = "".join(f"{key}={value}\\n" for key, value in wanted.items())
        others = " ".join(f"-e '/^{key}=/d'" for key in wanted)
        controller.check_output(f"sed {others} {KEPT} > {CONF} && printf '{lines}' >> {CONF}")

    yield put
    controller.check_output(f"cp {KEPT} {CONF}")
    converge()
    controller.check_output("scontrol reconfigure")


@pytest.fixture(scope="module")
def reconfigure_restarts(controller: Host) -> bool:
    """Whether the daemons restart when they reconfigure: since Slurm 23.11 (RELEASE_NOTES)."""
    return tuple(map(int, controller.check_output("scontrol --version").split()[1].split(".")[:2])) >= (23, 11)


def main_pids(controller: Host, computes: list[Host]) -> list[str]:
    """The process ids of slurmctld and of each slurmd."""
    shown = [controller.check_output("systemctl show --value --property=MainPID slurmctld")]
    return shown + [host.check_output("systemctl show --value --property=MainPID slurmd") for host in computes]


def test_unchanged_configuration_runs_no_command(
    controller: Host, computes: list[Host], converge: Callable[[], list[list[str]]]
) -> None:
    before = main_pids(controller, computes)
    assert converge() == [[], [], []]
    assert main_pids(controller, computes) == before


def test_a_changed_partition_restarts_no_daemon(
    controller: Host,
    computes: list[Host],
    settings: Callable[..., None],
    converge: Callable[[], list[list[str]]],
    eventually: Callable[..., float],
    reconfigure_restarts: bool,
) -> None:
    before = main_pids(controller, computes)
    controller.check_output(f"sed -i '/^PartitionName=/s/$/ PriorityTier=7/' {CONF}")
    assert converge() == [["reconfigure"], [], []]
    assert "PriorityTier=7" in controller.check_output("scontrol show partition")
    for host in computes:
        eventually(lambda host=host: "PriorityTier=7" in host.file(CACHE).content_string, 20, lambda: "not pushed")
    if not reconfigure_restarts:
        assert main_pids(controller, computes) == before
    assert converge() == [[], [], []]


def test_changed_keys_restart_the_daemons_and_running_jobs_continue(
    controller: Host,
    computes: list[Host],
    settings: Callable[..., None],
    converge: Callable[[], list[list[str]]],
    alice: Any,
    eventually: Callable[..., float],
    reconfigure_restarts: bool,
) -> None:
    # The job runs until its nodes have this file, however long the changes take.
    wait = f'srun --mpi=none sh -c "until test -e {END}; do sleep 1; done"'
    job = alice.sbatch("--nodes=2 --ntasks=2 --time=5", wait)
    step = f"pgrep --full '[s]lurmstepd: .{job}[.]0'"
    eventually(lambda: all(host.run(step).rc == 0 for host in computes), 40, lambda: alice.job(job))
    before = main_pids(controller, computes)
    settings(MaxJobCount="9999", TaskPlugin="task/none")
    assert converge() == ([["reconfigure"], [], []] if reconfigure_restarts else [["restart"]] * 3)
    eventually(
        lambda: not set(before) & set(main_pids(controller, computes)),
        30 if reconfigure_restarts else 0,
        lambda: (before, main_pids(controller, computes)),
    )
    assert all(host.run(step).rc == 0 for host in computes)
    assert "= 9999" in controller.check_output("scontrol show config | grep ^MaxJobCount")
    for host in computes:
        host.check_output(f"touch {END}")
    eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", 60, lambda: alice.job(job))
    assert (alice.job(job)["Restarts"], alice.job(job)["ExitCode"]) == ("0", "0:0")
    for host in computes:
        host.check_output(f"rm {END}")


def test_a_node_with_less_memory_than_slurm_conf_states_is_drained(
    controller: Host, run_tasks: RunTasks, inventory: dict[str, Any], eventually: Callable[..., float]
) -> None:
    """The test reduces the memory in the output of slurmd -C, because a container has the memory of its host."""
    (ctl,), (first, _second) = inventory["hpcai_controller"]["hosts"], inventory["hpcai_compute"]["hosts"]
    node = run_tasks((first, {"hpcai.azure.slurmd": {}}))[first]["node"]
    assert node["hardware"]["RealMemory"] >= 1945

    def put_to_work(seen: dict[str, Any]) -> dict[str, Any]:
        task = {"hpcai.azure.slurm_nodes": {"put_to_work": ["compute-0"], "seen": {"compute-0": seen}}}
        return run_tasks((ctl, task))[ctl]

    out = put_to_work({**node, "hardware": {**node["hardware"], "RealMemory": 1900}})
    assert out["unfit"] == {"compute-0": "hpcai: hardware: RealMemory is 1900, configured 1945"}
    shown = controller.check_output("sinfo --noheader --nodes=compute-0 --format='%%T %%E'")
    assert shown == "drained hpcai: hardware: RealMemory is 1900, configured 1945"
    back = put_to_work(node)
    assert (back["resumed"], back["unfit"]) == (["compute-0"], {})
    state = "sinfo --noheader --nodes=compute-0 --format=%%T"
    eventually(lambda: controller.check_output(state) == "idle", 30, lambda: controller.check_output(state))
