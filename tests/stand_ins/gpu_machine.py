# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A machine with a stand-in for its GPU driver. The product's code runs in child processes that load that library."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import uuid
from typing import Any

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "tests" / "stand_ins" / "nvml" / "build.sh"
PLAYED = REPOSITORY / "tests" / "stand_ins" / "played.py"
# NVML's error codes, as in its header.
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, IRQ_ISSUE, RESET_REQUIRED, MISMATCH = 3, 4, 9, 11, 16, 18
DEPRECATED, UNKNOWN_ERROR = 26, 999

SHOW_PERSISTENCED = "systemctl show nvidia-persistenced --property=LoadState,ActiveState,SubState,Result"


def build(folder: pathlib.Path, *definitions: str) -> pathlib.Path:
    """Build the stand-in library into a folder; build.sh installs a compiler if there is none."""
    done = subprocess.run([BUILD, folder, *definitions], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the stand-in for NVML could not be built:\n{done.stdout}{done.stderr}"
    return folder


class GpuMachine:
    """A machine with its files in a tree and its GPUs in the stand-in's folder.

    The product reads GPUs only on a live root, so `played.py` pretends that the tree is the live root.
    """

    def __init__(self, folder: pathlib.Path, library: pathlib.Path | None, gpus: int = 8) -> None:
        self.root, self.gpus, self.library = folder / "root", folder / "gpus", library
        self.path = os.environ["PATH"]
        self.gpus.mkdir(parents=True)
        self.boot()
        for index in range(gpus):
            device = self.root / f"sys/bus/pci/devices/{index + 1:04x}:00:00.0"
            device.mkdir(parents=True)
            for name, value in (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x20b0")):
                (device / name).write_text(f"{value}\n", encoding="ascii")
        self.play(gpus=gpus)

    def boot(self) -> None:
        """Restart the machine: /run is empty and the driver is reloaded."""
        run, boot_id = self.root / "run/hpcai/clocks.json", self.root / "proc/sys/kernel/random/boot_id"
        run.unlink(missing_ok=True)
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        self.reload_driver()

    def reload_driver(self) -> None:
        """Reload the driver: it loses all settings, and its folder in sysfs has a new inode."""
        module = self.root / "sys/module/nvidia"
        fresh = module.with_name("nvidia.new")
        # Created before the old one is removed, so that the file system does not reuse its inode number.
        fresh.mkdir(parents=True)
        if module.exists():
            module.rmdir()
        fresh.rename(module)
        (self.gpus / "state").unlink(missing_ok=True)

    def play(self, **settings: Any) -> None:
        """Add lines to the stand-in's settings; a double underscore becomes a dot: gpu__3__lost=1."""
        with (self.gpus / "config").open("a", encoding="ascii") as file:
            file.writelines(f"{name.replace('__', '.')}={value}\n" for name, value in settings.items())

    @property
    def state(self) -> dict[str, int]:
        """The values that were set, by the stand-in's keys."""
        file = self.gpus / "state"
        lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        return {key: int(value) for key, value in (line.split("=") for line in lines)}

    def calls(self, *words: str) -> list[str]:
        """Return the calls since the last time that contain one of the words, without the process ID."""
        file = self.gpus / "calls"
        lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line.split(" ", 1)[1] for line in lines if not words or any(word in line for word in words)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which programs find the stand-ins."""
        library = {"LD_LIBRARY_PATH": str(self.library)} if self.library else {}
        return {
            "PATH": self.path,
            "PYTHONPATH": str(REPOSITORY / ".collections"),
            "NVML_STAND_IN": str(self.gpus),
            **library,
        }

    def _python(self, what: str, argument: Any, limit: float = 60) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(PLAYED), str(self.root), what, json.dumps(argument)]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=limit, check=False)

    def module(self, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        """Run the module gpu_clocks and return its result."""
        done = self._python("module", {**options, "_ansible_check_mode": check_mode, "_ansible_diff": True})
        assert done.stdout.lstrip().startswith("{"), f"the module did not answer: {done.stdout}{done.stderr}"
        answer: dict[str, Any] = json.loads(done.stdout)
        return {"failed": False, **answer}

    def command(self, *arguments: str) -> tuple[int, str, dict[str, Any]]:
        """Run `hpcnode clocks` and return exit status, text and data."""
        done = self._python("command", arguments)
        assert done.stdout.startswith("{"), f"the command did not answer: {done.stdout}{done.stderr}"
        answer = json.loads(done.stdout)
        return answer["status"], answer["text"], answer["data"]

    def settings(self, name: str, **content: Any) -> None:
        """Write a settings file below /etc/hpcai."""
        file = self.root / f"etc/hpcai/{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"schema": 1, **content}), encoding="ascii")

    def step(
        self, answers: dict[str, tuple[int, str]] | None = None, check: bool = False, seconds: float = 60
    ) -> dict[str, Any]:
        """Perform the boot step `gpu`; by default modules load and the persistence daemon runs."""
        usual = {
            "modprobe nvidia_uvm": (0, ""),
            "modprobe nvidia_peermem": (0, ""),
            SHOW_PERSISTENCED: (0, "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n"),
        }
        done = self._python("step", {"answers": {**usual, **(answers or {})}, "check": check, "seconds": seconds})
        assert done.stdout.startswith("{"), f"the step did not answer: {done.stdout}{done.stderr}"
        outcome: dict[str, Any] = json.loads(done.stdout)
        return outcome

    def health(self, *questions: str, limit_s: float = 30) -> dict[str, Any]:
        """Read the GPUs' health; ``questions`` are methods of ``Gpus``, by default all of them."""
        asked = {"questions": questions or ("versions", "all", "links", "inforoms"), "limit_s": limit_s}
        done = self._python("health", asked)
        assert done.stdout.startswith("{"), f"no answer came: {done.stdout}{done.stderr}"
        answers: dict[str, Any] = json.loads(done.stdout)
        return answers

    def processes(self) -> dict[int, list[str]] | None:
        """Return the GPUs on which each process computes."""
        answer = json.loads(self._python("processes", None).stdout)
        return None if answer is None else {int(pid): busids for pid, busids in answer.items()}
