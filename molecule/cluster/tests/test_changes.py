# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of Slurm's configuration brings what it needs, no more, and running jobs go on.

The modules are run one by one on the converged cluster, after a change of its slurm.conf by hand; site.yml's own runs
are other tests'. Afterwards all is as before.
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
Answers = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def answers(azure: Cluster, inventory_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Run one task on each of some hosts, one after another and all in one run; each host's answer."""

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
        told = [json.loads(line) for line in (folder / "results").read_text(encoding="utf-8").splitlines()]
        return {line["host"]: line["result"] for line in told}

    return run


@pytest.fixture(scope="module")
def converge(answers: Answers, inventory: dict[str, Any]) -> Callable[[], list[list[str]]]:
    """What the role does after a change: slurmctld, then each slurmd. What was done to each of them."""
    (ctl,), nodes = inventory["hpcai_controller"]["hosts"], inventory["hpcai_compute"]["hosts"]
    of_slurmctld = f"{{{{ hostvars['{ctl}']['answer']['for_slurmd'] }}}}"

    def run() -> list[list[str]]:
        told = answers(
            (ctl, {"hpcai.azure.slurmctld": {}, "register": "answer"}),
            (",".join(nodes), {"hpcai.azure.slurmd": {"controller": of_slurmctld}}),
        )
        return [told[host]["commands"] for host in (ctl, *nodes)]

    return run


@pytest.fixture(scope="module")
def settings(controller: Host, converge: Callable[[], list[list[str]]]) -> Iterator[Callable[..., None]]:
    """Set keys of slurm.conf; they go afterwards."""
    controller.check_output(f"cp {CONF} {KEPT}")

    def put(**wanted: str) -> None:
        lines = "".join(f"{key}={value}\\n" for key, value in wanted.items())
        others = " ".join(f"-e '/^{key}=/d'" for key in wanted)
        controller.check_output(f"sed {others} {KEPT} > {CONF} && printf '{lines}' >> {CONF}")

    yield put
    controller.check_output(f"cp {KEPT} {CONF}")
    converge()
    controller.check_output("scontrol reconfigure")


def processes(controller: Host, computes: list[Host]) -> list[str]:
    """The main processes of slurmctld and of each slurmd."""
    shown = [controller.check_output("systemctl show --value --property=MainPID slurmctld")]
    return shown + [host.check_output("systemctl show --value --property=MainPID slurmd") for host in computes]


def test_converged_cluster_needs_nothing(
    controller: Host, computes: list[Host], converge: Callable[[], list[list[str]]]
) -> None:
    before = processes(controller, computes)
    assert converge() == [[], [], []]
    assert processes(controller, computes) == before


def test_partition_that_changed_restarts_nothing(
    controller: Host,
    computes: list[Host],
    settings: Callable[..., None],
    converge: Callable[[], list[list[str]]],
    eventually: Callable[..., float],
) -> None:
    before = processes(controller, computes)
    controller.check_output(f"sed -i '/^PartitionName=/s/$/ PriorityTier=7/' {CONF}")
    assert converge() == [["reconfigure"], [], []]
    assert "PriorityTier=7" in controller.check_output("scontrol show partition")
    for host in computes:
        eventually(lambda host=host: "PriorityTier=7" in host.file(CACHE).content_string, 20, lambda: "not pushed")
    assert processes(controller, computes) == before
    assert converge() == [[], [], []]


def test_keys_that_need_restarts_restart_and_a_running_job_goes_on(
    controller: Host,
    computes: list[Host],
    settings: Callable[..., None],
    converge: Callable[[], list[list[str]]],
    alice: Any,
    eventually: Callable[..., float],
) -> None:
    # It ends when it is told to, however long the changes take.
    wait = f'srun --mpi=none sh -c "until test -e {END}; do sleep 1; done"'
    job = alice.sbatch("--nodes=2 --ntasks=2 --time=5", wait)
    step = f"pgrep --full '[s]lurmstepd: .{job}[.]0'"
    eventually(lambda: all(host.run(step).rc == 0 for host in computes), 40, lambda: alice.job(job))
    before = processes(controller, computes)
    settings(MaxJobCount="9999", TaskPlugin="task/none")
    assert converge() == [["restart"], ["restart"], ["restart"]]
    after = processes(controller, computes)
    assert not set(before) & set(after)
    assert all(host.run(step).rc == 0 for host in computes)
    assert "= 9999" in controller.check_output("scontrol show config | grep ^MaxJobCount")
    for host in computes:
        host.check_output(f"touch {END}")
    eventually(lambda: alice.job(job)["JobState"] == "COMPLETED", 60, lambda: alice.job(job))
    assert (alice.job(job)["Restarts"], alice.job(job)["ExitCode"]) == ("0", "0:0")
    for host in computes:
        host.check_output(f"rm {END}")


def test_hardware_that_differs_from_slurm_conf_is_named_and_the_node_kept_out(
    controller: Host, answers: Answers, inventory: dict[str, Any], eventually: Callable[..., float]
) -> None:
    """What a node has is made worse in the answer of slurmd -C, since no container has less than its host."""
    (ctl,), (first, _second) = inventory["hpcai_controller"]["hosts"], inventory["hpcai_compute"]["hosts"]
    node = answers((first, {"hpcai.azure.slurmd": {}}))[first]["node"]
    assert node["hardware"]["RealMemory"] >= 1945

    def put_to_work(seen: dict[str, Any]) -> dict[str, Any]:
        task = {"hpcai.azure.slurm_nodes": {"put_to_work": ["compute-0"], "seen": {"compute-0": seen}}}
        return answers((ctl, task))[ctl]

    out = put_to_work({**node, "hardware": {**node["hardware"], "RealMemory": 1900}})
    assert out["unfit"] == {"compute-0": "hpcai: hardware: RealMemory is 1900, configured 1945"}
    shown = controller.check_output("sinfo --noheader --nodes=compute-0 --format='%%T %%E'")
    assert shown == "drained hpcai: hardware: RealMemory is 1900, configured 1945"
    back = put_to_work(node)
    assert (back["resumed"], back["unfit"]) == (["compute-0"], {})
    state = "sinfo --noheader --nodes=compute-0 --format=%%T"
    eventually(lambda: controller.check_output(state) == "idle", 30, lambda: controller.check_output(state))
