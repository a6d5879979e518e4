# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of health checks before a job starts: hpcnode's tier prolog, and LBNL NHC with AzNHC's checks.

    tests/benchmarks/run.sh health_prolog --nhc FOLDER --aznhc FOLDER

The folders are checkouts of mej/nhc and of Azure/azurehpc-health-checks. Without them, only hpcnode is measured. The
node is a fake Standard_ND96isr_H100_v5 in its own namespaces (root only): its /sys, /proc/cpuinfo and /proc/meminfo are
files, and NVML, nvidia-smi, systemctl, lspci, lstopo and curl are stand-ins that answer at once. AzNHC's checks that
need a working GPU or adapter are omitted, and so is its container. The output lists what was run.

The contenders take turns, so that a busy machine slows all of them. strace counts the processes in separate runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stand_ins.health_node import INTERPRETER, SIZE, HealthNode

from benchmarks import adopting
from benchmarks.machine import commit

HOOK = "/usr/libexec/hpcai/prolog"
# The role writes the same script.
SCRIPT = "#!/bin/sh\nexec /usr/bin/hpcnode health prolog --within 57\n"
CANNOT = {
    "check_gpu_bw": "copies between GPUs (nvbandwidth)",
    "check_nccl_allreduce": "runs nccl-tests on all GPUs",
    "check_ib_bw_gdr": "runs ib_write_bw on all adapters",
}
"""AzNHC's checks that stand-ins cannot replace, with the reason."""
LOG_LINES = 1000
OURS, THEIRS = "hpcnode health run prolog", "nhc with AzNHC's checks"


@dataclass
class Contender:
    """A command on the node, and its results."""

    name: str
    command: tuple[str, ...]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    opened: int = 0
    """Processes that opened the driver."""
    processes: int = 0
    programs: int = 0

    def take(self, node: HealthNode) -> None:
        """Run it once."""
        launcher = [INTERPRETER, "-I", "-S", adopting.__file__, *self.command]
        taken = json.loads(node.node.run(*launcher).stdout)
        if taken["status"]:
            done = node.node.run(*self.command, check=False)
            raise SystemExit(f"{self.name} fails ({taken['status']}): {done.stdout}{done.stderr}")
        self.wall.append(taken["wall"])
        self.cpu.append(taken["cpu"])
        self.opened = opened(node)

    def count(self, node: HealthNode, folder: Path) -> None:
        """Count the processes and programs that it starts."""
        folder.mkdir()
        calls = "trace=clone,clone3,fork,vfork,execve"
        node.node.run("strace", "-ff", "-qq", "-o", str(folder / "of"), "-e", calls, "-e", "signal=none", *self.command)
        traces = [file.read_text(encoding="utf-8") for file in folder.iterdir()]
        threads = sum(len(re.findall(r"CLONE_THREAD\b.* = [1-9]", trace)) for trace in traces)
        self.processes = len(traces) - threads
        self.programs = sum(len(re.findall(r"^execve\(.* = 0$", trace, re.MULTILINE)) for trace in traces)


def opened(node: HealthNode) -> int:
    """How many processes opened the driver since the last call."""
    file = node.gpus.gpus / "calls"
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return len({line.split()[0] for line in lines if "nvmlInit" in line})


def theirs(nhc: Path, aznhc: Path, node: HealthNode) -> tuple[list[Contender], list[str]]:
    """LBNL NHC with AzNHC's checks for the size, called as in its container, and lines that describe the checks."""
    root = node.folder / "azure-nhc"
    for folder in ("topofiles", "output", "scripts"):
        (root / folder).mkdir(parents=True)
    shutil.copy(node.folder / "ndv5-topo.xml", root / "topofiles")
    kernel = "".join(f"Nov 22 16:40:00 node kernel: [{n:5}.000000] eth0: nothing of note\n" for n in range(LOG_LINES))
    (root / "syslog").write_text(kernel, encoding="ascii")
    for source in (nhc / "scripts", aznhc / "customTests"):
        for script in source.glob("*.nhc"):
            shutil.copy(script, root / "scripts")
    conf = aznhc / "conf" / f"{SIZE.lower().removeprefix('standard_')}.conf"
    lines = [line for line in conf.read_text(encoding="utf-8").splitlines() if line.strip().startswith("*")]
    checks = [line.partition("||")[2].strip() for line in lines]
    kept = [check for check in checks if check.split()[0] not in CANNOT]
    (root / "aznhc.conf").write_text("".join(f" * || {check}\n" for check in kept), encoding="utf-8")
    (root / "none.conf").touch()
    log = root / "output/aznhc.log"
    node.node.environment["AZ_NHC_ROOT"] = str(root)
    given = (f"LOGFILE={log}", f"INCDIR={root}/scripts", f"CONFDIR={root}", "TIMEOUT=500", "MARK_OFFLINE=0")
    contenders = [
        Contender(name, (str(nhc / "nhc"), f"CONFFILE={root / conf}", *given))
        for name, conf in ((THEIRS, "aznhc.conf"), ("nhc without a check", "none.conf"))
    ]
    # Compare the checks in its log with those in the configuration.
    done = node.node.run(*contenders[0].command, "VERBOSE=1", check=False)
    logged = log.read_text(encoding="utf-8")
    ran = re.findall(r'^Running check:  "(.*)"$', logged, re.MULTILINE)
    if done.returncode or ran != kept:
        raise SystemExit(f"nhc did not run all checks on the fake node:\n{logged}{done.stderr}")
    version = re.search(r"\d+\.\d+\.\d+", (nhc / "RELEASE_NOTES.txt").read_text(encoding="utf-8"))
    names = list(dict.fromkeys(check.split()[0] for check in ran))
    words = [
        f"LBNL NHC {version[0] if version else '?'}; AzNHC's {conf.name}: {len(ran)} of {len(checks)} lines run: "
        + ", ".join(f"{name} ({sum(check.split()[0] == name for check in ran)})" for name in names),
        "Not run: " + "; ".join(f"{name}, which {why}" for name, why in CANNOT.items()),
    ]
    return contenders, words


def ours(node: HealthNode) -> tuple[list[Contender], list[str]]:
    """hpcnode's contenders, and lines that describe the checks of both tiers."""
    words = []
    for tier in ("prolog", "periodic"):
        node.node.run("/usr/bin/hpcnode", "health", "run", tier, check=False)
        document = json.loads(node.node.text(f"/run/hpcai/health/{tier}.json") or "{}")
        verdicts = [check["verdict"] for check in document["checks"]]
        counted = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
        words.append(f"hpcnode, tier {tier}: {len(verdicts)} checks: {counted}")
    periodic = "/usr/bin/hpcnode health run periodic || [ $? -lt 3 ]"
    contenders = [
        Contender("python3 -I -c pass", (INTERPRETER, "-I", "-c", "pass")),
        Contender("hpcnode health status prolog", ("/usr/bin/hpcnode", "health", "status", "prolog")),
        Contender(OURS, ("/usr/bin/hpcnode", "health", "run", "prolog")),
        Contender("the complete prolog with it", (HOOK,)),
        # It reports hardware that the fake node lacks; that does not fail the benchmark.
        Contender("hpcnode health run periodic", ("/bin/sh", "-c", periodic)),
    ]
    return contenders, words


def table(contenders: Sequence[Contender], counted: bool) -> str:
    """A Markdown table with medians, and minimum and maximum in brackets."""
    rows = ["| | wall ms | CPU ms | processes | programs | open the driver |", "|:--|--:|--:|--:|--:|--:|"]
    for one in contenders:
        cells = [_spread(one.wall), _spread(one.cpu)]
        cells += [str(one.processes), str(one.programs)] if counted else ["-", "-"]
        rows.append(f"| {one.name} | {' | '.join([*cells, str(one.opened)])} |")
    return "\n".join(rows)


def _spread(seconds: Sequence[float]) -> str:
    low, middle, high = (round(1000 * value) for value in (min(seconds), statistics.median(seconds), max(seconds)))
    return f"{middle} ({low} to {high})"


def ratios(contenders: Sequence[Contender]) -> list[str]:
    """Compare each contender with ours: the median of the ratios of all rounds."""
    by_name = {one.name: one for one in contenders}
    mine = by_name[OURS]
    lines = []
    for one in contenders:
        if one is not mine:
            wall, cpu = (
                statistics.median(a / b for a, b in zip(first, second, strict=True))
                for first, second in ((mine.wall, one.wall), (mine.cpu, one.cpu))
            )
            lines.append(f"* {OURS} / {one.name}: {wall:.2f} times the wall time, {cpu:.2f} times the CPU time")
    return lines


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nhc", type=Path, metavar="FOLDER", help="checkout of mej/nhc")
    parser.add_argument("--aznhc", type=Path, metavar="FOLDER", help="checkout of Azure/azurehpc-health-checks")
    parser.add_argument("--repeat", type=int, default=15, help="rounds (default: 15)")
    options = parser.parse_args()
    if bool(options.nhc) is not bool(options.aznhc):
        parser.error("--nhc and --aznhc go together")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        node = HealthNode(folder)
        try:
            node.hook(SCRIPT)
            contenders, words = ours(node)
            if options.nhc:
                more, more_words = theirs(options.nhc.resolve(), options.aznhc.resolve(), node)
                contenders, words = [*contenders, *more], [*words, *more_words]
            load = os.getloadavg()[0]
            for number in range(-1, options.repeat):
                for one in contenders:
                    one.take(node)
                    if number < 0:
                        # The first round warms up.
                        one.wall.clear()
                        one.cpu.clear()
            counted = shutil.which("strace") is not None
            for number, one in enumerate(contenders if counted else ()):
                one.count(node, folder / f"trace-{number}")
        finally:
            node.node.end()
    python = subprocess.run([INTERPRETER, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{commit()}, {python}, Linux {platform.release()}, {os.cpu_count()} CPUs, load {load:.1f} to", end=" ")
    print(f"{os.getloadavg()[0]:.1f}, {options.repeat} rounds; median (minimum to maximum)\n")
    print("\n".join([*(f"* {line}" for line in words), "", table(contenders, counted), "", *ratios(contenders)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
