# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user swaps folders and links on the scratch, where root creates, mounts and removes folders for jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from testinfra.host import Host

from simulated.hosts import plain

Eventually = Callable[..., float]
PRECIOUS = "/var/lib/attack-precious"
UNIT = "attack-swap.service"
IDLE_S, REMOVED_S, RACE_S = 120, 120, 3600
SUBMIT, PRIVATE, SCRIPT = "/run/attack-submit", "/run/attack-bob", "/run/attack-job.sh"
FIRST_JOB = 3_900_000_001
"""Slurm does not assign job numbers this high."""

# Swaps the folder, or the job's folder in it, with a link to a folder of root, in a tight loop.
SWAP = f"""
import contextlib, os
os.chdir("/scratch")
def swap(path):
    with contextlib.suppress(OSError):
        os.rename(path, "beeond.swap")
    with contextlib.suppress(OSError):
        os.symlink("{PRECIOUS}", path)
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.rename("beeond.swap", path)
while True:
    with contextlib.suppress(OSError):
        os.mkdir("beeond")
    with contextlib.suppress(OSError):
        for name in os.listdir("beeond"):
            swap(f"beeond/{{name}}")
    swap("beeond")
"""

# Runs prologs and epilogs in turn, each time after the user has created the folder, and prints what the user gained.
RACE = f"""
import json, os, shutil, stat, subprocess, sys, time
tries, user, node = int(sys.argv[1]), sys.argv[2], sys.argv[3]
won, failed, moved = [], [], 0
for number in range({FIRST_JOB}, {FIRST_JOB} + tries):
    shutil.rmtree("/scratch/beeond", ignore_errors=True)
    until = time.monotonic() + 5
    while not os.path.lexists("/scratch/beeond") and time.monotonic() < until:
        time.sleep(0.001)
    job = {{"SLURM_JOB_ID": str(number), "SLURM_JOB_UID": user, "SLURM_JOB_GID": user, "SLURM_JOB_NODELIST": node,
            "SLURMD_NODENAME": node, "SLURM_JOB_CONSTRAINTS": "beeond", "PATH": os.environ["PATH"]}}
    for kind in ("prolog", "epilog"):
        done = subprocess.run([f"/etc/hpcai/{{kind}}.d/20-beeond"], env=job, capture_output=True, text=True)
        moved += "/scratch/beeond was" in done.stdout
        if done.returncode:
            failed.append(f"{{kind}}: {{done.stdout}}{{done.stderr}}")
        about = os.stat("{PRECIOUS}")
        if os.listdir("{PRECIOUS}") or about.st_uid or stat.S_IMODE(about.st_mode) != 0o700:
            won.append(f"{{kind}} of try {{number - {FIRST_JOB}}}: {{os.listdir('{PRECIOUS}')}}")
            subprocess.run(["umount", "--lazy", "/beeond"], stderr=subprocess.DEVNULL)
            shutil.rmtree("{PRECIOUS}")
            os.mkdir("{PRECIOUS}", 0o700)
print(json.dumps({{"won": won, "failed": failed, "moved": moved}}))
"""

# A job that was submitted in a folder like /tmp. Its watchdog would end it after 10 s without progress.
WATCHED = f"""
export SLURM_SUBMIT_DIR={SUBMIT}
hpcnode train progress 5 >{PRIVATE}/progress 2>&1
timeout 40 hpcnode recover watch --start 10 --limit 10 --settle 1 >{PRIVATE}/watch 2>&1
echo $? >{PRIVATE}/status
"""
PLANT = {
    "link": f"ln -s {PRIVATE}/keys",
    "file": "cp /etc/hostname",
    "pipe": "mkfifo -m 0666",
    "folder": "mkdir -m 0777",
}


@dataclass(frozen=True)
class Target:
    """A compute node.

    :ivar name: the node's name in Slurm.
    """

    host: Host
    name: str
    controller: Host

    def sh(self, command: str, check: bool = True) -> str:
        """Run a shell command as root, and return its output. Per cent signs need not be doubled."""
        done = self.host.run("sh -c %s", command)
        assert done.rc == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def as_alice(self, command: str) -> str:
        """Run a shell command as alice, as any process of a job or a login could."""
        done = self.host.run("runuser -u alice -- sh -c %s", command)
        assert done.rc == 0, f"{command}: {done.stdout}{done.stderr}"
        return str(done.stdout)

    def state(self) -> str:
        """The node's state in Slurm."""
        return str(self.controller.check_output(f"sinfo --noheader --format=%%T --nodes={self.name}"))


@pytest.fixture
def target(
    controller: Host, inventory: dict[str, Any], computes: list[Host], eventually: Eventually
) -> Iterator[Target]:
    """An idle compute node with a folder of root that no other user may access."""
    addresses = [plain(one["ansible_host"]) for one in inventory["_meta"]["hostvars"].values()]
    listed = controller.check_output("sinfo --Node --noheader --format='%%N %%o'")
    names = {address: name for name, address in (line.split() for line in listed.splitlines()) if address in addresses}
    own = computes[0].check_output("hostname --all-ip-addresses").split()
    (name,) = [name for address, name in names.items() if address in own]
    one = Target(computes[0], name, controller)
    eventually(lambda: one.state() == "idle", IDLE_S, one.state)
    clean = f"systemctl stop {UNIT} 2>/dev/null; rm -rf {PRECIOUS} /scratch/beeond /scratch/beeond.*"
    one.sh(f"{clean}; install -d -m 0700 {PRECIOUS}", check=False)
    yield one
    one.sh(clean, check=False)
    eventually(lambda: one.state() == "idle", IDLE_S, one.state)


def race(target: Target, tries: int) -> dict[str, Any]:
    """Run BeeOND's prolog and epilog of the node while alice swaps folders."""
    target.sh(f"cat >/run/attack-swap.py <<'END'\n{SWAP}\nEND\ncat >/run/attack-race.py <<'END'\n{RACE}\nEND")
    target.sh(f"systemd-run --quiet --collect --uid=alice --unit={UNIT} python3 /run/attack-swap.py")
    uid = target.sh("id --user alice").strip()
    return dict(json.loads(target.sh(f"python3 /run/attack-race.py {tries} {uid} {target.name}").splitlines()[-1]))


@pytest.mark.parametrize(
    "tries",
    [10, pytest.param(1000, marks=[pytest.mark.thorough, pytest.mark.race, pytest.mark.timeout(RACE_S)])],
)
def test_swapping_beeonds_folder_with_a_link_gains_nothing(target: Target, tries: int) -> None:
    """The user got a folder at any path: root created one behind the link, and changed its owner to the user."""
    found = race(target, tries)
    assert found["moved"] > 0, "root never met a folder of the user: the race was not tested"
    assert (found["won"], found["failed"]) == ([], [])


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("a file", "echo theirs >/scratch/beeond"),
        ("a symbolic link", f"ln -s {PRECIOUS} /scratch/beeond"),
        ("a folder", "mkdir /scratch/beeond && mkfifo /scratch/beeond/pipe"),
    ],
)
def test_a_users_file_in_place_of_beeonds_folder_drains_no_node(
    alice: Any, target: Target, kind: str, command: str
) -> None:
    """A file there failed each prolog, which drained the node; a link made root use another folder."""
    warning, log = f"warning: /scratch/beeond was {kind} of user ", ""
    # The periodic sweep also moves it away, and sometimes comes before the job.
    for _attempt in range(3):
        target.sh("rm -rf /scratch/beeond /scratch/beeond.*")
        target.as_alice(command)
        number = alice.srun(
            f"--constraint=beeond --nodes=1 --ntasks=1 --nodelist={target.name} --mpi=none",
            "sh -c 'echo x >/beeond/x && echo $SLURM_JOB_ID'",
        )
        log = target.sh(f"cat /var/log/hpcai/jobs/{number.strip()}.prolog.log")
        if warning in log:
            break
    assert warning in log
    assert target.sh("stat --format=%U:%a /scratch/beeond").strip() == "root:700"
    assert target.sh(f"ls -A {PRECIOUS}") == ""


def test_a_users_own_folder_survives_the_staging_epilog(alice: Any, target: Target, eventually: Eventually) -> None:
    """As root, the epilog removed each /scratch/hpcai-* with a file 'failed' that was older than a week."""
    if target.sh("ls /etc/hpcai/epilog.d/60-blob", check=False) == "":
        pytest.skip("the cluster has no azcopy: set HPCAI_AZCOPY_FILES")
    mine = ("hpcai-results", "hpcai-stage-1-0-abcdefgh")
    made = " ".join(f"/scratch/{name}" for name in mine)
    target.as_alice(f"mkdir -p {made}; for one in {made}; do touch -d '30 days ago' $one/failed; done")
    left = "/scratch/hpcai-azcopy/hpcai-stage-$SLURM_JOB_ID-0-abcdefgh"
    own = "/scratch/hpcai-stage-$SLURM_JOB_ID-0-abcdefgh"
    try:
        command = f"sh -c 'mkdir -p {left} {own} && echo $SLURM_JOB_ID'"
        number = alice.srun(f"--nodelist={target.name} --ntasks=1 --mpi=none", command).strip()
        # The epilog has run when the folder of a killed staging run is gone.
        gone = f"ls -d {left.replace('$SLURM_JOB_ID', number)}"
        eventually(lambda: target.sh(gone, check=False) == "", REMOVED_S, lambda: target.sh("ls -l /scratch/hpcai-*"))
        for name in (*mine, own.rpartition("/")[2].replace("$SLURM_JOB_ID", number)):
            assert target.sh(f"stat --format=%U /scratch/{name}").strip() == "alice"
    finally:
        target.sh("rm -rf /scratch/hpcai-results /scratch/hpcai-stage-*")


@pytest.mark.parametrize(
    "kind", ["link", *(pytest.param(one, marks=pytest.mark.thorough) for one in PLANT if one != "link")]
)
def test_names_that_a_user_created_first_change_no_file_and_end_no_job(
    bob: Any, target: Target, eventually: Eventually, kind: str
) -> None:
    """Through a link, bob's job replaced bob's file, with mode 0644. Any other entry never changed, so bob's watchdog
    ended the job after two hours; a pipe blocked the watchdog for ever."""
    target.sh(f"install -d -m 1777 {SUBMIT}; install -d -m 0700 -o bob {PRIVATE}")
    target.sh(f"install -m 0600 -o bob /etc/hostname {PRIVATE}/keys")
    target.sh(f"cat >{SCRIPT} <<'END'\n{WATCHED}\nEND")
    try:
        number = bob.sbatch(f"--hold --nodelist={target.name} --ntasks=1 --time=3", f"bash {SCRIPT}")
        target.as_alice(f"{PLANT[kind]} {SUBMIT}/hpcai-progress-{number}")
        bob.check_output(f"scontrol release {number}")
        eventually(lambda: bob.job(number)["JobState"] == "COMPLETED", IDLE_S, lambda: bob.job(number))
        words = f"{SUBMIT}/hpcai-progress-{number} belongs to user "
        assert words in target.sh(f"cat {PRIVATE}/progress")
        # It was still watching.
        assert target.sh(f"cat {PRIVATE}/status").strip() == "124"
        assert f"a hang would not be noticed: {words}" in target.sh(f"cat {PRIVATE}/watch")
        assert target.sh(f"stat --format=%U:%a {PRIVATE}/keys").strip() == "bob:600"
        assert target.sh(f"cmp {PRIVATE}/keys /etc/hostname") == ""
    finally:
        target.sh(f"rm -rf {SUBMIT} {PRIVATE} {SCRIPT}")
