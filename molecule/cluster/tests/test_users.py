# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster's users have the same ids on all machines, and can log in to a node on which they have a job.

The tests do not check that a session joins the job's cgroup: not all hosts have cgroups that Slurm can use in
containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
# ssh exits with 255 if it fails, and testinfra treats 255 as a failure of its own connection.
OR_FAIL = "|| exit 1"
REFUSAL = "Access denied by pam_slurm_adopt: you have no active jobs on this node"


@pytest.fixture(scope="module")
def address(computes: list[Host]) -> str:
    """The address of compute-0."""
    found = {host.check_output("hostname"): host.check_output("hostname -I").split()[0] for host in computes}
    return found["compute000000"]


@pytest.fixture(scope="module")
def keys(controller: Host, computes: list[Host], alice: Any, bob: Any) -> Iterator[None]:
    """Both users have ssh keys that the compute nodes accept. Home folders are local to each machine here."""
    for user in (alice, bob):
        user.check_output("rm -rf ~/.ssh && mkdir -m 700 ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
        public = user.check_output("cat ~/.ssh/id_ed25519.pub")
        for host in computes:
            with host.sudo(user.name):
                host.check_output("mkdir -p -m 700 ~/.ssh && echo %s > ~/.ssh/authorized_keys", public)
    yield
    for host in (controller, *computes):
        host.check_output("rm -rf ~alice/.ssh ~bob/.ssh")


def test_users_have_the_same_ids_on_every_machine(controller: Host, computes: list[Host]) -> None:
    for host in (controller, *computes):
        assert (host.user("alice").uid, host.user("alice").gid) == (4001, 4001)
        assert (host.user("bob").uid, host.user("bob").gid) == (4002, 4002)
        assert host.user("alice").password == "*"
        assert oct(host.file("/home/alice").mode) == "0o700"


def test_jobs_of_two_users_run_as_themselves_on_each_node(alice: Any, bob: Any) -> None:
    for user, number in ((alice, "4001"), (bob, "4002")):
        lines = user.srun("--mpi=none --nodes=2 --ntasks-per-node=1 --mem=100", "sh -c 'echo $(hostname) $(id -u)'")
        assert sorted(lines.splitlines()) == [f"compute000000 {number}", f"compute000003 {number}"]


def test_a_job_has_slurmds_limits_and_not_those_of_the_shell(alice: Any) -> None:
    shown = alice.check_output("ulimit -n 256; srun --time=2 --mpi=none --ntasks=1 --mem=100 sh -c 'ulimit -n'")
    assert int(shown) > 256


@pytest.mark.usefixtures("keys")
def test_a_user_without_a_job_is_refused_and_gets_the_reason(alice: Any, address: str) -> None:
    done = alice.run(f"{SSH} {address} true {OR_FAIL}")
    assert done.rc != 0
    assert REFUSAL in done.stderr


@pytest.mark.usefixtures("keys")
def test_a_user_with_a_job_can_log_in_until_it_ends(
    alice: Any, bob: Any, address: str, eventually: Callable[..., float]
) -> None:
    number = alice.sbatch("--nodelist=compute-0 --ntasks=1 --mem=100 --time=5", "sleep 240")
    try:
        # Slurm reports the job as running shortly before the node starts it.
        eventually(lambda: alice.run(f"{SSH} {address} true {OR_FAIL}").rc == 0, 60, lambda: alice.job(number))
        assert alice.check_output(f"{SSH} {address} id -u") == "4001"
        # Bob has no job there.
        assert REFUSAL in bob.run(f"{SSH} {address} true {OR_FAIL}").stderr
    finally:
        alice.run(f"scancel {number}")
    eventually(lambda: alice.run(f"{SSH} {address} true {OR_FAIL}").rc != 0, 60, lambda: alice.job(number))


def test_admins_can_always_log_in(computes: list[Host]) -> None:
    """The tests themselves log in as azureuser, who is an admin and has no jobs."""
    for host in computes:
        with host.sudo("azureuser"):
            assert host.check_output("squeue --noheader --user=azureuser") == ""
        assert "azureuser" in host.file("/etc/hpcai/ssh_admins").content_string.split()
        # The module comes before the distribution's account checks, and does not replace them.
        stack = host.file("/etc/pam.d/sshd").content_string
        assert stack.index("pam_slurm_adopt.so") < stack.index("@include common-account")
        assert "pam_systemd.so" not in host.file("/etc/pam.d/hpcai-common-session").content_string.split("\n", 2)[2]


def test_the_login_node_accepts_all_users(controller: Host) -> None:
    assert "pam_slurm_adopt" not in controller.file("/etc/pam.d/sshd").content_string
