# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel of a container: real Jupyter starts it by its command, with a stand-in for srun.

The stand-in accepts the options that srun and pyxis have, and runs the command on this machine, without a container, if
its folders are mounted. Like srun (_build_user_env in Slurm's src/srun/launch.c), it passes on only Slurm's variables
and those that SLURM_EXPORT_ENV names.
"""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from stand_ins import portal as stand_in

from hpcai_portal import notebook

SRUN = """\
#!{python}
import json, os, sys
words, options = sys.argv[1:], {{}}
while words[0].startswith("--"):
    name, _mark, value = words.pop(0)[2:].partition("=")
    options[name] = value
assert set(options) == {{"overlap", "ntasks", "cpus-per-task", "container-image", "container-name", "container-mounts",
                        "container-workdir"}}, options
mounts = [mount.split(":") for mount in options["container-mounts"].split(",")]
for path in (words[-1], options["container-workdir"]):
    assert [1 for source, target in mounts if source == target and (path + "/").startswith(target + "/")], path
with open(os.path.join(os.path.dirname(sys.argv[0]), "asked.json"), "w") as file:
    json.dump(options, file)
os.chdir(options["container-workdir"])
assert words.pop(0) == "python3"
names = os.environ.get("SLURM_EXPORT_ENV", "ALL").split(",")
env = {{name: value for name, value in os.environ.items() if {{"ALL", name}} & {{*names}} or name.startswith("SLURM_")}}
os.execve("{python}", ["{python}", *words], {{**env, "CONTAINER": options["container-image"]}})
"""
RUN = """\
import os
from jupyter_client.manager import KernelManager
# As JupyterLab's server does (connection_dir).
file = os.environ["JUPYTER_RUNTIME_DIR"] + "/kernel-1.json"
manager = KernelManager(kernel_name="container", transport="ipc", connection_file=file)
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=240)
said = []
def hear(message):
    if message["msg_type"] == "stream":
        said.append(message["content"]["text"])
        if "begins" in message["content"]["text"]:
            manager.interrupt_kernel()
    elif message["msg_type"] == "error":
        said.append(message["content"]["ename"])
NAMES = ["HOME", "CHOSEN", "JUPYTERHUB_USER", "CONTAINER"]
show = f"import os; env = os.environ; print(os.getcwd(), *map(env.get, {NAMES}))"
client.execute_interactive(show, output_hook=hear, timeout=240)
client.execute_interactive("print('JUPYTERHUB_API_TOKEN' in env)", output_hook=hear, timeout=240)
client.execute_interactive("import time; print('begins', flush=True); time.sleep(200)", output_hook=hear, timeout=240)
client.stop_channels()
manager.shutdown_kernel()
print("".join(said))
"""


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """The notebook's folder. The path of tmp_path can be too long for sockets, as command_of says."""
    with tempfile.TemporaryDirectory(prefix=notebook.PREFIX, dir="/tmp") as path:
        yield pathlib.Path(path)


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_jupyter_starts_interrupts_and_stops_a_kernel_in_a_container(
    tmp_path: pathlib.Path, folder: pathlib.Path
) -> None:
    python = stand_in.programs() / "hub/bin/python"
    home = tmp_path / "home"
    for path in (home, folder / "runtime", folder / "jupyter/kernels/container"):
        path.mkdir(parents=True)
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(python=python), encoding="utf-8")
    srun.chmod(0o755)
    made = notebook.kernel("nvcr.io#nvidia/pytorch:25.04-py3", str(folder), str(home), "2")
    argv = made["argv"]
    assert isinstance(argv, list)
    assert "/usr/bin/srun" in argv
    spec = {**made, "argv": [str(srun) if word == "/usr/bin/srun" else word for word in argv]}
    (folder / "jupyter/kernels/container/kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    # The job's environment: the hub's variables, sbatch's record of --export, and what the user's profile sets.
    hubs = {"JUPYTERHUB_API_TOKEN": "secret", "JUPYTERHUB_USER": "alice"}
    given = {**os.environ, **hubs, "SLURM_EXPORT_ENV": ",".join(hubs), "CHOSEN": "by-profile"}
    account = pwd.struct_passwd(("alice", "x", os.getuid(), os.getgid(), "", str(home), "/bin/bash"))
    done = subprocess.run(
        [str(python), "-c", RUN],
        env=notebook.environment(given, account, str(folder), 21005),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = [str(home), str(home), "by-profile", "alice", "nvcr.io#nvidia/pytorch:25.04-py3", "False"]
    assert done.stdout.split() == [*shown, "begins", "KeyboardInterrupt"]
    asked = json.loads((tmp_path / "asked.json").read_text(encoding="utf-8"))
    assert asked["ntasks"] == "1"
    assert asked["cpus-per-task"] == "2"
    # The sockets of the kernel are below the mounted folder, and gone after the end.
    assert not list((folder / "runtime").glob("*ipc*"))
