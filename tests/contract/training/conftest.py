# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job on two nodes without Slurm: the rendered script in bash, with the real hpcnode. Stand-ins for Slurm's commands
start, list and signal processes of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import pytest
from stand_ins.blob.azurite import Azurite, NotHere, azcopy_in, installed
from stand_ins.blob.sas import account_sas

from simulated import frameworks
from simulated.cluster import REPOSITORY

SRUN = """\
import os, signal, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
words = sys.argv[1:]
while words and words[0].startswith("--"):
    words.pop(0)
given = dict(word[2:].split("=", 1) for word in options if "=" in word)
masks = [int(mask, 16) for mask in given.get("cpu-bind", "").partition("mask_cpu:")[2].split(",") if mask]
def bind(local):
    if masks:
        mask = masks[local % len(masks)]
        os.sched_setaffinity(0, {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1})
if "container-image" in given:
    # Like pyxis, it refuses an image file that does not exist, but it runs the program on this machine.
    os.stat(given["container-image"])
    os.environ["CONTAINER"] = f"{given['container-image']} with {given['container-mounts']}"
count, each = int(given["ntasks"]), int(given["ntasks-per-node"])
tasks, step, asked = [], 0, []
def forward(number, _frame=None):
    asked.append(number)
    for _node, task in tasks:
        task.send_signal(number)
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, forward)
while True:
    try:
        os.mkdir(f"{os.environ['STEPS']}/{step}")
        break
    except FileExistsError:
        step += 1
for rank in range(count):
    node = f"c-{rank // each}"
    place = {"SLURM_STEP_ID": step, "SLURM_PROCID": rank, "SLURM_NTASKS": count, "SLURM_LOCALID": rank % each}
    place["SLURM_NODEID"] = rank // each
    environment = {**os.environ, **{name: str(value) for name, value in place.items()}, "SLURMD_NODENAME": node}
    # @NODE@ in a path makes it one on the disks of each node.
    own = [word.replace("@NODE@", node) for word in words]
    tasks.append((node, subprocess.Popen(own, env=environment, preexec_fn=lambda: bind(rank % each))))
    open(f"{os.environ['STEPS']}/{step}/{tasks[-1][1].pid}", "w").close()
for number in list(asked):
    forward(number)
worst, left = 0, dict(enumerate(tasks))
while left:
    number, (node, task) = next(iter(left.items()))
    for number, (node, task) in left.items():
        try:
            task.wait(0.05)
            break
        except subprocess.TimeoutExpired:
            continue
    else:
        continue
    del left[number]
    status = task.returncode if task.returncode >= 0 else 128 - task.returncode
    if status:
        how = "Killed" if status == 137 else "Terminated" if status == 143 else f"Exited with exit code {status}"
        sys.stderr.write(f"srun: error: {node}: task {number}: {how}\\n")
        if given.get("kill-on-bad-exit") == "1" and status != 75:
            for _node, other in left.values():
                other.terminate()
    worst = max(worst, status) if worst != 137 else worst
for name in os.listdir(f"{os.environ['STEPS']}/{step}"):
    os.unlink(f"{os.environ['STEPS']}/{step}/{name}")
os.rmdir(f"{os.environ['STEPS']}/{step}")
sys.exit(worst)
"""
# mpirun starts its daemons with srun. A rank has Open MPI's variables, and of all others only those of -x for certain.
MPIRUN = """\
import os, sys
words, given, exported = sys.argv[1:], {}, []
lengths = {"-np": 1, "--map-by": 1, "--bind-to": 1, "--mca": 2, "-x": 1}
while words[0] in lengths:
    name = words.pop(0)
    value = [words.pop(0) for _turn in range(lengths[name])]
    given[name] = value[0]
    exported += value if name == "-x" else []
assert given["--bind-to"] == "none"
count, each = given["-np"], given["--map-by"].split(":")[1]
kept = {name: os.environ[name] for name in (*exported, "PATH", "HOME", "STEPS")}
place = (("RANK", "PROCID"), ("SIZE", "NTASKS"), ("LOCAL_RANK", "LOCALID"))
rank = " ".join(f"OMPI_COMM_WORLD_{name}=$SLURM_{slurm}" for name, slurm in place)
shell = ["sh", "-c", f'exec env {rank} "$@"', "sh"]
os.execvpe("srun", ["srun", f"--ntasks={count}", f"--ntasks-per-node={each}", *shell, *words], kept)
"""
SINFO = """\
import os, sys
if "%o" in " ".join(sys.argv):
    print("c-0 {0}\\nc-1 {0}".format(os.environ["ADDRESS"]))
else:
    print("c-0|mixed|none\\nc-1|mixed|none")
"""
SCONTROL = """\
import os, signal, sys, time
if sys.argv[-1].startswith("Comment="):
    with open(os.environ["COMMENT"], "w") as file:
        file.write(sys.argv[-1].partition("=")[2])
    sys.exit()
with open(os.environ["CONTROL"], "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1].startswith("requeue"):
    # Slurm terminates the batch script, and kills everything that it has started when it is gone.
    stat = open(f"/proc/{os.getppid()}/stat").read()
    script = int(stat.rpartition(")")[2].split()[1])
    os.kill(script, signal.SIGTERM)
    time.sleep(0.3)
    if open(f"/proc/{script}/stat").read().rpartition(")")[2].split()[0] == "Z":
        os.kill(os.getppid(), signal.SIGKILL)
"""
SQUEUE = """\
import os, sys
if "--steps" in sys.argv:
    print("\\n".join(f"{os.environ['SLURM_JOB_ID']}.{step}" for step in os.listdir(os.environ["STEPS"])))
else:
    path = os.environ["COMMENT"]
    print(open(path).read() if os.path.exists(path) else "(null)")
"""
SCANCEL = """\
import contextlib, os, signal, sys
assert sys.argv[1] == "--signal=KILL"
for step in sys.argv[2:]:
    for pid in os.listdir(f"{os.environ['STEPS']}/{step.rpartition('.')[2]}"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
"""
HPCNODE = """\
import os, shlex, sys
if sys.argv[1] == "checkpoint" or sys.argv[1:3] == ["stage", "run"]:
    # On a node, these are in /etc/hpcai/blob.json.
    sys.argv += shlex.split(os.environ.get("BLOB_OPTIONS", ""))
if sys.argv[1:3] == ["checkpoint", "watch"] and "EVENTS" in os.environ:
    # Each node has its own scheduled events.
    sys.argv += ["--root", f"{os.environ['EVENTS']}/{os.environ['SLURMD_NODENAME']}"]
if sys.argv[1:3] in (["train", "preflight"], ["train", "end"]) and "VM_SIZE" in os.environ:
    # On a node, Azure's metadata service knows it.
    sys.argv += ["--vm-size", os.environ["VM_SIZE"]]
from ansible_collections.hpcai.azure.plugins.module_utils._node.cli.main import main
sys.exit(main())
"""
LIMIT_S = 900
"""Only for a script that hangs: on a busy machine each start of hpcnode may take seconds."""
FILES = REPOSITORY / "roles/training/files"
_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture
def account(tmp_path: pathlib.Path) -> Iterator[Azurite]:
    """A storage account with a container for checkpoints, and one with a data set."""
    try:
        made = Azurite(installed(), tmp_path / "azurite")
    except NotHere as error:
        pytest.skip(str(error))
    made.container("checkpoints")
    made.container("data")
    yield made
    made.end()


def with_account(job: Job) -> None:
    """Let a job's hpcnode use the storage account."""
    sas = job.folder / "sas"
    sas.write_text(account_sas() + "\n")
    sas.chmod(0o600)
    (job.folder / "work").mkdir()
    azcopy = azcopy_in(installed())
    job.environment["BLOB_OPTIONS"] = f"--sas-file {sas} --azcopy {azcopy} --work {job.folder / 'work'}"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Kill what a test has started and not awaited: a training whose test failed would compute for ever."""
    yield
    while _STARTED:
        process = _STARTED.pop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def started(
    words: Sequence[str], environment: Mapping[str, str], folder: pathlib.Path, output: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start a program whose output is kept, with all that it starts itself."""
    made = subprocess.Popen(
        words,
        env=environment,
        cwd=folder,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    _STARTED.append(made)
    return made


class Job:
    """A job of a recipe on two nodes.

    :param recipe: its name.
    :param files: the folder with recipes and trainers.
    :param python: the interpreter of the trainer.
    :ivar number: the job's id.
    """

    def __init__(self, folder: pathlib.Path, recipe: str, files: pathlib.Path, python: str, address: str) -> None:
        self.folder, self.recipe, self._files, self._python = folder, recipe, files, python
        bins = folder / "bin"
        for made in (bins, folder / "steps"):
            made.mkdir()
        programs = {
            "srun": SRUN,
            "mpirun": MPIRUN,
            "sinfo": SINFO,
            "scontrol": SCONTROL,
            "squeue": SQUEUE,
            "scancel": SCANCEL,
        }
        for name, text in {**programs, "hpcnode": HPCNODE}.items():
            (bins / name).write_text(f"#!{sys.executable}\n{text}")
            (bins / name).chmod(0o755)
        self.number = _free_number()
        self.environment = {
            "PATH": f"{bins}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / ".collections"),
            "USER": "alice",
            "HOME": str(folder),
            "ADDRESS": address,
            "CONTROL": str(folder / "control"),
            "COMMENT": str(folder / "comment"),
            "STEPS": str(folder / "steps"),
            "SLURM_JOB_ID": self.number,
            "SLURM_JOB_NODELIST": "c-[0-1]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_SUBMIT_DIR": str(folder),
        }
        self.script = folder / "job.sbatch"
        self._logged = 0

    def render(self, run: str = "", *words: str) -> None:
        """Write the script."""
        given = ["train", "script", self.recipe, "--recipes", str(self._files), "--python", self._python]
        given += ["--run", run or str(self.folder / "run"), *words]
        done = subprocess.run(
            [self.folder / "bin/hpcnode", *given], env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        self.script.write_text(done.stdout)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start the script, as slurmd does: a run after a requeue appends to the job's log."""
        self._logged = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("a") as output:
            return started(["bash", str(self.script)], {**self.environment, **variables}, self.folder, output)

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Wait for the script, and return its status and what this run has printed."""
        process.wait(timeout=LIMIT_S)
        # What it has started may print a last line.
        deadline = time.monotonic() + 30
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(process.pid, 0)
                time.sleep(0.05)
        return process.returncode, self.log.read_bytes()[self._logged :].decode()

    @property
    def log(self) -> pathlib.Path:
        """The job's log, whose name is in the script."""
        return self.folder / f"{self.recipe}-tiny-{self.number}.log"

    @property
    def job_folder(self) -> pathlib.Path:
        """The folder of its record."""
        return self.folder / f"{self.recipe}-tiny-{self.number}"

    @property
    def control(self) -> list[str]:
        """What scontrol was asked, with JOB in place of the job's id."""
        path = self.folder / "control"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.replace(self.number, "JOB") for line in lines]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs of the record."""
        return list(json.loads((self.job_folder / "runs.json").read_text())["runs"])


def _free_number() -> str:
    """Return a job id whose port, which ``hpcnode train env`` derives from it, is free."""
    for number in range(os.getpid() % 10000, 15000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", 15000 + number))
            except OSError:
                continue
            return str(number)
    raise RuntimeError("no port is free")


def framework_job(folder: pathlib.Path, recipe: str, files: pathlib.Path = FILES) -> Job:
    """Return a job of a recipe with the real framework; skip the test if that is not given."""
    folder.mkdir(exist_ok=True)
    packages = frameworks.packages()
    python = folder / "python"
    variables = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    words = [*(f"{name}={value}" for name, value in variables.items()), sys.executable]
    python.write_text(f'#!/bin/sh\nexec env {shlex.join(words)} "$@"\n')
    python.chmod(0o755)
    # 127.0.0.1 is what slurmctld has for nodes that are not there.
    return Job(folder, recipe, files, str(python), "127.0.0.2")
