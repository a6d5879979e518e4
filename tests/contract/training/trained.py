# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two processes that train a recipe's size ``tiny`` on this machine, with the real frameworks."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass

import pytest

from ansible_collections.hpcai.azure.plugins.module_utils._node.train.recipe import read_recipe
from ansible_collections.hpcai.azure.plugins.module_utils._node.train.script import trainer_arguments
from simulated import frameworks

from .conftest import FILES, LIMIT_S, started

NEEDS = {
    "gpt-deepspeed": "deepspeed",
    "gpt-nvme": "deepspeed",
    "gpt-compile": "deepspeed",
    "gpt-megatron": "megatron",
}
# gpt-ort needs a frozen image.
ON_CPUS = ("fsdp", "bert-ddp", "cosmoflow", "resnet-scaling", "gpt-deepspeed", "gpt-megatron")
COMPILED = {"gpt-nvme": "libaio.h", "gpt-compile": "Python.h"}
"""Recipes that compile C++ at the start, with the header that they need."""


@dataclass(frozen=True)
class Training:
    """A recipe's tiny size as two processes on this machine, each on a node of its own."""

    recipe: str
    folder: pathlib.Path
    packages: pathlib.Path

    def start(
        self,
        *changed: str,
        world: int = 2,
        instead: str = "",
        full: bool = False,
        shared: bool = True,
        **variables: str,
    ) -> list[subprocess.Popen[str]]:
        """Start the processes.

        :param instead: a program in place of the trainer.
        :param shared: whether the nodes say that they share the folder.
        :param full: whether each node has its own folder for checkpoints, that of the second one on a full disk.
        """
        recipe = read_recipe(str(FILES), self.recipe)
        (self.folder / "job").mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        program = instead or str(FILES / "trainers" / recipe.trainer)
        words = [sys.executable, program, *trainer_arguments(recipe.size("tiny"))]
        words += [f"--run={self.folder / 'run'}", f"--job={self.folder / 'job'}", *changed]
        words += ["--shared"] if shared and not full else []
        own_disk = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            f'mount -t tmpfs -o size=64k x {self.folder}/run && exec "$@"',
            "x",
        ]
        return [
            started(
                [*own_disk, *words] if full and rank == 1 else words,
                {
                    # With ninja, for what is compiled at the start.
                    "PATH": f"{self.packages}/bin:{os.environ['PATH']}",
                    "PYTHONPATH": str(self.packages),
                    "HOME": str(self.folder),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "OMP_NUM_THREADS": "1",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "GLOO_SOCKET_IFNAME": "lo",
                    "SLURM_NTASKS": str(world),
                    "SLURM_LOCALID": "0",
                    "SLURM_PROCID": str(rank),
                    "SLURM_NODEID": str(rank),
                    "SLURMD_NODENAME": f"n-{rank}",
                    **{name: os.environ[name] for name in ("CPATH", "LIBRARY_PATH") if name in os.environ},
                    **variables,
                },
                self.folder,
            )
            for rank in range(world)
        ]

    def train(self, *changed: str, world: int = 2, instead: str = "", **variables: str) -> tuple[list[int], str]:
        """Train to the end, and return the exit statuses and the first rank's output."""
        return self.wait(self.start(*changed, world=world, instead=instead, full=False, shared=True, **variables))

    def wait(self, processes: list[subprocess.Popen[str]]) -> tuple[list[int], str]:
        """Wait for the processes."""
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        return [process.returncode for process in processes], outputs[0]

    def steps(self) -> list[int]:
        """The steps of the finished checkpoints."""
        markers = (self.folder / "run").glob("step*/.complete")
        return sorted(int(path.parent.name.removeprefix("step")) for path in markers)


@pytest.fixture
def training(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Training:
    """A training of the recipe that the test names."""
    folder = frameworks.packages()
    name = getattr(request, "param", "bert-ddp")
    if name in NEEDS and not frameworks.has(folder, NEEDS[name]):
        pytest.skip(f"{frameworks.VARIABLE} has no wheel of {NEEDS[name]}")
    if name in COMPILED and not compiles(COMPILED[name]):
        pytest.skip(f"g++ or {COMPILED[name]} is missing: {name} compiles C++ at the start")
    return Training(name, tmp_path, folder)


def compiles(header: str) -> bool:
    """Return whether this machine can compile C++ with a header."""
    if shutil.which("g++") is None:
        return False
    words = ["g++", f"-I{sysconfig.get_paths()['include']}", "-fsyntax-only", "-x", "c++", "-"]
    return (
        subprocess.run(words, input=f"#include <{header}>\n", text=True, capture_output=True, check=False).returncode
        == 0
    )


def loss_of(output: str) -> str:
    """The last loss in the log."""
    return output.rpartition("loss ")[2].split()[0]
