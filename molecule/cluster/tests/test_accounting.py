# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accounting, a limit that is enforced, and a controller that loses its state and is restored from a dump."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from testinfra.host import Host

DUMPS = "/var/tmp/hpcai-dumps"


def as_user(host: Host, command: str) -> str:
    """What a command of an ordinary user prints."""
    with host.sudo("azureuser"):
        return str(host.check_output(command))


def until(look: Callable[[], str], wanted: str, seconds: int = 60) -> str:
    """Call look until it returns the wanted value or the timeout is over; return its last value."""
    deadline = time.monotonic() + seconds
    while (value := look()) != wanted and time.monotonic() < deadline:
        time.sleep(1)
    return value


@pytest.fixture
def dumps(controller: Host) -> Iterator[str]:
    """A folder for dumps, removed afterwards."""
    yield DUMPS
    controller.check_output(f"umount {DUMPS} 2>/dev/null; rm -rf {DUMPS}")
    controller.check_output("scancel --user=azureuser")


def test_a_job_of_an_ordinary_user_is_recorded(controller: Host) -> None:
    job = as_user(controller, "cd /tmp && sbatch --parsable --wait --output=/dev/null --time=2 --wrap true")
    fields = "JobID,User,Account,State,ExitCode,AllocTRES"
    ask = f"sacct --noheader --parsable2 --allocations --jobs={job} --format={fields}"
    # The default memory of a job depends on the size of the machine.
    row = rf"{job}\|azureuser\|\|COMPLETED\|0:0\|billing=1,cpu=1,mem=\d+M,node=1"
    assert until(lambda: str(bool(re.fullmatch(row, as_user(controller, ask)))), "True") == "True", as_user(
        controller, ask
    )


def test_slurmdbd_has_no_password_and_its_settings_are_private(controller: Host) -> None:
    settings = controller.file("/etc/slurm/slurmdbd.conf")
    assert (settings.user, settings.group, oct(settings.mode)) == ("slurm", "slurm", "0o600")
    assert "StoragePass" not in settings.content_string
    assert controller.check_output("mariadb -BNe \"SELECT plugin FROM mysql.user WHERE user='slurm'\"") == "unix_socket"
    # Clients can connect only through the socket.
    assert not controller.socket("tcp://0.0.0.0:3306").is_listening


@pytest.mark.thorough
def test_a_qos_limit_is_enforced(controller: Host) -> None:
    sacctmgr = "sacctmgr --immediate"
    controller.check_output(f"{sacctmgr} add qos hpcai-test; {sacctmgr} modify qos hpcai-test set GrpTRES=cpu=1")
    controller.check_output(
        f"{sacctmgr} add account hpcai-test; {sacctmgr} add user azureuser account=hpcai-test qos=normal,hpcai-test"
    )
    config = "/etc/slurm/slurm.conf"
    before = controller.file(config).content_string
    try:
        controller.check_output(f"echo AccountingStorageEnforce=limits,qos >> {config} && systemctl restart slurmctld")
        until(lambda: str(controller.run("scontrol ping").rc), "0")
        job = as_user(
            controller,
            "cd /tmp && sbatch --parsable --account=hpcai-test --qos=hpcai-test --ntasks=2 "
            "--output=/dev/null --time=2 --wrap 'sleep 60'",
        )
        look = f"squeue --noheader --jobs={job} --format='%%T|%%r'"
        assert until(lambda: as_user(controller, look), "PENDING|QOSGrpCpuLimit") == "PENDING|QOSGrpCpuLimit"
        controller.check_output(f"scancel {job}")
    finally:
        controller.check_output(f"sed -i /^AccountingStorageEnforce=limits,qos$/d {config}")
        assert controller.file(config).content_string == before
        controller.check_output("systemctl restart slurmctld")
        until(lambda: str(controller.run("scontrol ping").rc), "0")
        controller.check_output(
            f"{sacctmgr} delete user azureuser account=hpcai-test; "
            f"{sacctmgr} delete account hpcai-test; {sacctmgr} delete qos hpcai-test"
        )


@pytest.mark.thorough
def test_a_restore_brings_back_the_queue_and_the_running_job_continues(controller: Host, dumps: str) -> None:
    batch = "cd /tmp && sbatch --parsable --output=/dev/null --time=10"
    running = as_user(controller, f"{batch} --wrap 'sleep 300'")
    state = f"squeue --noheader --jobs={running} --format=%%T"
    assert until(lambda: as_user(controller, state), "RUNNING") == "RUNNING"
    queued = as_user(controller, f"{batch} --hold --wrap true")
    history = f"sacct --noheader --parsable2 --allocations --jobs={running} --format=JobID,User,State"
    assert until(lambda: as_user(controller, history), f"{running}|azureuser|RUNNING") == f"{running}|azureuser|RUNNING"
    start = controller.check_output(f"scontrol show job {running} | grep -o 'StartTime=[^ ]*'")
    # slurmctld saves its queue within ten seconds.
    time.sleep(11)
    made = controller.check_output(f"hpcnode slurm dump --to {dumps}")

    refused = controller.run(f"hpcnode slurm restore {dumps}")
    assert refused.rc == 1
    assert "jobs, which would be lost" in refused.stderr

    controller.check_output(
        "systemctl stop slurmctld slurmdbd && rm -rf /var/lib/slurm/slurmctld "
        "&& mariadb -e 'DROP DATABASE slurm_acct_db'"
    )
    assert controller.check_output(f"hpcnode slurm restore {dumps}").splitlines()[0] == f"restored {made}"

    with controller.sudo("azureuser"):
        assert controller.check_output(f"squeue --noheader --jobs={queued} --format=%%T") == "PENDING"
    # The same start time: the job was not requeued.
    assert until(lambda: as_user(controller, state), "RUNNING") == "RUNNING"
    assert controller.check_output(f"scontrol show job {running} | grep -o 'StartTime=[^ ]*'") == start
    assert as_user(controller, history) == f"{running}|azureuser|RUNNING"


def test_a_dump_to_a_full_disk_keeps_the_old_dumps(controller: Host, dumps: str) -> None:
    controller.check_output(f"mkdir -p {dumps} && mount -t tmpfs -o size=100M tmpfs {dumps}")
    made = controller.check_output(f"hpcnode slurm dump --to {dumps}")
    controller.check_output(f"fallocate -l 60M {dumps}/something")
    refused = controller.run(f"hpcnode slurm dump --to {dumps}")
    assert refused.rc == 1
    assert "Existing dumps are unchanged" in refused.stderr
    listed = controller.check_output(f"hpcnode slurm list --to {dumps}").splitlines()
    assert [line.split()[0] for line in listed] == [made]
