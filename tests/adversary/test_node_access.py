# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user keeps nothing on the node after a job, and cannot access anything of another user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

Eventually = Callable[..., float]
STOP_S = 180
PARENTS = ("/run/enroot", "/scratch/enroot/cache", "/scratch/enroot/data", "/scratch/enroot/images")
NEW_UID = 59999
"""A user id that has never had a job, so its folders do not exist."""
# Prints the live jobs of this node, as the node's own code finds them.
PRINT_LIVE_JOBS = """
import json, sys
sys.path.insert(0, "/usr/lib/hpcai/lib")
from hpcai_node.machine.owners import live_jobs, read_owned
from hpcai_node.machine.root import Root
from hpcai_node.setup.containers.user_folders import live_jobs as live_to_sweep
print(json.dumps([sorted(live_jobs(read_owned(Root()))), sorted(live_to_sweep(Root()))]))
"""


def job(user: Any, host: Host, script: str) -> str:
    """Run a script in a job on the node, which must succeed, and return its output."""
    words = f"--nodelist={slurm_name(host)} --ntasks=1 --mpi=none sh -c {shlex.quote(script)}"
    return str(user.check_output(f"srun --time=2 {words}", 180))


def slurm_name(host: Host) -> str:
    """The node's name in Slurm."""
    return str(host.check_output(". /etc/hpcai/slurmd.env; set -- $SLURMD_OPTIONS; echo $2"))


def test_a_user_cannot_create_another_users_container_folders(bob: Any, computes: list[Host]) -> None:
    """A user who created the folder first owned everything that the other user ran in containers."""
    made = f"for p in {' '.join(PARENTS)}; do mkdir -m 0777 $p/user-{NEW_UID} && echo $p; done; true"
    try:
        for host in computes:
            assert job(bob, host, made) == ""
    finally:
        for host in computes:
            host.run(f"rmdir {' '.join(f'{parent}/user-{NEW_UID}' for parent in PARENTS)}")


def test_a_user_cannot_move_or_read_another_users_container_folders(alice: Any, bob: Any, computes: list[Host]) -> None:
    for host in computes:
        mine = job(alice, host, f"for p in {' '.join(PARENTS)}; do stat --format=%a:%u $p/user-$(id -u); done; id -u")
        *folders, uid = mine.splitlines()
        assert folders == [f"700:{uid}"] * len(PARENTS)
        tried = f"for p in {' '.join(PARENTS)}; do ls $p/user-{uid} || mv $p/user-{uid} $p/x || continue; echo $p; done"
        assert job(bob, host, f"{tried}; true") == ""


def test_an_epilog_without_a_prolog_lists_no_containers(computes: list[Host]) -> None:
    """pyxis' epilog lists the user's containers, even if the job was cancelled before its prolog ran on this node.

    enroot then tried to create the user's folder, which only root can, so the epilog failed and drained the node.
    """
    listed = f"setpriv --reuid={NEW_UID} --regid={NEW_UID} --clear-groups env --ignore-environment PATH=/usr/bin:/bin"
    for host in computes:
        done = host.run(f"cd / && {listed} enroot list")
        assert (done.rc, done.stdout, done.stderr) == (0, "", "")
        assert host.run(f"cd / && {listed} touch /run/enroot/empty/container").rc != 0


def test_users_cannot_use_cron_and_at(alice: Any, computes: list[Host]) -> None:
    """Their processes belong to no job: they could use the node's GPUs and memory after the job, without limits."""
    for host in computes:
        for name in ("cron", "at"):
            allowed = host.file(f"/etc/{name}.allow")
            assert (allowed.exists, allowed.size, allowed.user, oct(allowed.mode)) == (True, 0, "root", "0o644")
        tried = "command -v crontab && echo '* * * * * true' | crontab - && echo got-cron; "
        tried += "command -v at && echo true | at now + 1 hour && echo got-at; true"
        assert "got-" not in job(alice, host, tried)


def test_lingering_starts_no_services(alice: Any, computes: list[Host]) -> None:
    """They would be in no job, and continue after it. Where polkit is installed, users can enable it themselves."""
    uid = alice.check_output("id --user")
    for host in computes:
        try:
            host.run_test(f"loginctl enable-linger {alice.name}")
            host.run(f"systemctl start user@{uid}.service")
            assert host.check_output(f"systemctl show --property=ActiveState --value user@{uid}.service") == "inactive"
        finally:
            host.run(f"loginctl disable-linger {alice.name}")
        assert host.run(f"systemctl start user@{uid}.service").rc == 0
        assert host.check_output(f"systemctl show --property=ActiveState --value user@{uid}.service") == "active"
        host.check_output(f"systemctl stop user@{uid}.service")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            'cp "$(command -v sleep)" $d/slurmstepd; '
            'exec bash -c "exec -a \\"slurmstepd: [59999.0]\\" $d/slurmstepd 40"',
            marks=pytest.mark.thorough,
        ),
        # sudo runs as root while it asks for a password.
        'ln -s "$(command -v sudo)" $d/slurmstepd; '
        'sleep 40 | bash -c "exec -a \\"slurmstepd: [59999.0]\\" $d/slurmstepd -S true"',
    ],
    ids=["own", "sudo"],
)
def test_a_process_named_slurmstepd_does_not_count_as_a_job(
    alice: Any, computes: list[Host], eventually: Eventually, program: str
) -> None:
    """With this name, processes and containers of ended jobs were not removed, and GPU processes not reported."""
    host = computes[0]
    script = f"d=$(mktemp -d /tmp/adversary.XXXXXX); {program}"
    number = alice.check_output(
        f"sbatch --parsable --output=/dev/null --time=4 --nodelist={slurm_name(host)} --wrap {shlex.quote(script)}"
    )
    seen = "pgrep --full --list-full '^slurmstepd: .59999'"
    try:
        eventually(lambda: host.run(seen).rc == 0, STOP_S, lambda: alice.run(f"squeue --jobs={number}").stdout)
        owned, swept = json.loads(host.check_output("/usr/bin/python3 -I -c %s", PRINT_LIVE_JOBS))
        assert (int(number) in owned, number in swept) == (True, True)
        assert (59999 in owned, "59999" in swept) == (False, False)
    finally:
        alice.run(f"scancel {number}")
        eventually(lambda: host.run(seen).rc != 0, STOP_S, lambda: host.run(seen).stdout)
        host.run("rm -rf /tmp/adversary.??????")


def test_users_cannot_read_results_of_health_checks(bob: Any, computes: list[Host]) -> None:
    """The results name processes, files and jobs of other users."""
    for host in computes:
        tried = "cat /run/hpcai/health/*.json /run/hpcai/health/prolog.json /run/hpcai/health/periodic.json; true"
        assert job(bob, host, tried) == ""
        folder = host.file("/run/hpcai/health")
        assert (oct(folder.mode), folder.user, folder.group) == ("0o750", "root", "adm")
