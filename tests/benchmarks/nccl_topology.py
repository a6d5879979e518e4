# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare nccl_topology with the plain commands that the HPC images run instead: cp, and a few lines with echo.

``PYTHONPATH=tests:.collections python -m benchmarks.nccl_topology`` prints a table of CPU times. Each contender is a
separate process. The plain commands do less: they check nothing, and always write.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stand_ins.sized_machine import SizedMachine

from benchmarks.measure import Sample, measure

REPOSITORY = Path(__file__).resolve().parents[2]
SIZE = "Standard_ND96asr_v4"
_VARIABLES = ("NCCL_IB_PCI_RELAXED_ORDERING=1", "NCCL_IGNORE_CPU_AFFINITY=1", "NCCL_SOCKET_IFNAME=eth0")

# The node core as a separate package, as in hpcnode, without Ansible.
_CORE = """
import sys
sys.path.insert(0, {folder!r})
from _node.setup.nccl.ensure import ensure
from _node.setup.nccl.options import options_of
ensure(options_of({options!r}))
"""
_MODULE = """
import contextlib, io, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.hpcai.azure.plugins.modules import nccl_topology
with contextlib.redirect_stdout(io.StringIO()), patch_module_args({options!r}):
    nccl_topology.main()
"""
_IMPORTS = """
from ansible.module_utils.basic import AnsibleModule
"""


@dataclass(frozen=True)
class Contender:
    """A way to write the files.

    :ivar name: its name in the table.
    :ivar command: its command line.
    :ivar fresh: whether the files are removed before each run.
    """

    name: str
    command: tuple[str, ...]
    fresh: bool = False


def contenders(work: Path) -> Iterator[Contender]:
    """All contenders, on the files of one machine."""
    tree = SizedMachine.of_size(work / "root", SIZE)
    out = work / "files"
    options = {
        "vm_size": SIZE,
        "root": str(tree.path),
        "topology_path": str(out / "topo.xml"),
        "conf_path": str(out / "nccl.conf"),
        "enroot_dir": str(out / "enroot"),
    }
    core = _CORE.format(folder=str(REPOSITORY / "plugins/module_utils"), options=options)
    module = _MODULE.format(options=options)
    shipped = work / "shipped.xml"
    shipped.write_text("x" * 2500, encoding="utf-8")
    yield Contender("cp and echo", ("/bin/sh", "-c", shell(shipped, out)), fresh=True)
    yield Contender("python -c pass", (sys.executable, "-c", "pass"))
    yield Contender("hpcnode's core, everything to write", (sys.executable, "-c", core), fresh=True)
    yield Contender("hpcnode's core, nothing to write", (sys.executable, "-c", core))
    yield Contender("an empty Ansible module", (sys.executable, "-c", _IMPORTS))
    yield Contender("the module, everything to write", (sys.executable, "-c", module), fresh=True)
    yield Contender("the module, nothing to write", (sys.executable, "-c", module))


def shell(shipped: Path, out: Path) -> str:
    """The plain commands, with the drop-ins for enroot that administrators add."""
    quoted = shlex.quote(str(out))
    variables = " ".join(map(shlex.quote, (*_VARIABLES, f"NCCL_TOPO_FILE={out}/topo.xml")))
    mount = f"{out}/topo.xml {out}/topo.xml none x-create=file,bind,ro,nofail"
    return (
        f"set -e; mkdir -p {quoted}/enroot/mounts.d {quoted}/enroot/environ.d; "
        f"cp {shlex.quote(str(shipped))} {quoted}/topo.xml; "
        f'for line in {variables}; do echo "$line"; done > {quoted}/nccl.conf; '
        f"echo {shlex.quote(mount)} > {quoted}/enroot/mounts.d/60-nccl.fstab; "
        f"echo NCCL_TOPO_FILE={quoted}/topo.xml > {quoted}/enroot/environ.d/60-nccl.env"
    )


def clean(folder: Path) -> None:
    """Remove the files, but not the folders."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.unlink()


def run(repeat: int) -> list[tuple[str, list[Sample]]]:
    """Measure all contenders in turns, so that a busy machine slows all of them."""
    with tempfile.TemporaryDirectory(prefix="hpcai-nccl-") as name:
        work = Path(name)
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / ".collections")}
        known = list(contenders(work))
        samples: dict[str, list[Sample]] = {contender.name: [] for contender in known}
        for _round in range(repeat):
            for contender in known:
                if contender.fresh:
                    clean(work / "files")
                samples[contender.name].append(measure(contender.command, environment, work))
    return list(samples.items())


def table(results: Sequence[tuple[str, list[Sample]]]) -> str:
    """A Markdown table. The ratios are to the first row."""
    base = statistics.median(sample.cpu for sample in results[0][1])
    rows = ["| | CPU ms: median (min-max) | times the plain commands |", "|:--|--:|--:|"]
    for name, samples in results:
        times = [1000 * sample.cpu for sample in samples]
        median = statistics.median(times)
        rows.append(f"| {name} | {median:.1f} ({min(times):.1f}-{max(times):.1f}) | {median / (1000 * base):.1f} |")
    return "\n".join(rows)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15, help="runs of each contender")
    print(table(run(parser.parse_args().repeat)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
