# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster as Prometheus sees it: text files that the product's own code writes, InfiniBand ports in a /sys, and a
page in dcgm-exporter's format. It can be healthy, or have every fault that a page shows.

The outputs of Slurm's commands are those of 24.11, shortened.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

from stand_ins.infiniband import put_port

from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import book, settings
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import cost as elastic_cost
from ansible_collections.hpcai.azure.plugins.module_utils._node.elastic import status as elastic_status
from ansible_collections.hpcai.azure.plugins.module_utils._node.health import prometheus
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.check import (
    PERIODIC,
    PROLOG,
    Answer,
    Check,
    Result,
)
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.engine import TierRun
from ansible_collections.hpcai.azure.plugins.module_utils._node.health.perform import as_document
from ansible_collections.hpcai.azure.plugins.module_utils._node.job.beeond import layout
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger import output
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.accounting import Event, JobRun, Skipped
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.checkpoints import Checkpoint, index_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.ledger.compute import Sources, compute
from ansible_collections.hpcai.azure.plugins.module_utils._node.machine.root import Root
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics import slurm
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.progress import Progress
from ansible_collections.hpcai.azure.plugins.module_utils._node.metrics.serve import jobs_text, slurm_text

NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=48 CPUAlloc=0 CPUTot=96 CPULoad=0.10 AvailableFeatures=(null)"
    " Gres=gpu:8 NodeAddr=10.0.0.{address} NodeHostName={name} Version=24.11.5 RealMemory=1900000 Sockets=2 Boards=1"
    " State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Partitions=compute BootTime=2026-11-20T10:00:00"
    " SlurmdStartTime=2026-11-20T10:00:00 LastBusyTime=2026-11-20T10:00:00{reason}\n"
)
SDIAG = """\
*******************************************************
sdiag output at Fri Nov 27 04:00:00 2026 (1795752000)
Data since      Fri Nov 27 00:00:00 2026 (1795737600)
*******************************************************
Server thread count:  {threads}
RPC queue enabled:    0
Agent queue size:     {agents}
Agent count:          0
Agent thread count:   0
DBD Agent queue size: {dbd}

Jobs submitted: 3
Jobs started:   2

Main schedule statistics (microseconds):
\tLast cycle:   {cycle}
\tMax cycle:    900000
\tTotal cycles: 61
\tMean cycle:   {cycle}
\tMean depth cycle:  0
\tCycles per minute: 1
\tLast queue length: {queue}

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 0
\tLast cycle: {cycle}
\tMean cycle: {cycle}
\tLast depth cycle: 2
\tLast queue length: {queue}

Latency for 1000 calls to gettimeofday(): 20 microseconds

Remote Procedure Call statistics by message type
\tREQUEST_PARTITION_INFO                  ( 2009) count:10     ave_time:154    total_time:1543
"""
CHECKS = ("gpu_count", "scratch", "nccl_env")
JOB, SHORT = 117, 119
"""The second one runs only while there are faults."""


def utc(when: float) -> str:
    """A time as Slurm prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))


def health(name: str, verdicts: dict[str, str], seconds: float = 0.4) -> dict[str, str]:
    """The text files of a node's tiers."""
    now = time.time()
    found = {}
    for tier in (PERIODIC, PROLOG):
        checks = tuple(Check(one, one, "It is.", (tier,), lambda _context: Answer()) for one in CHECKS)
        results = tuple(Result(one, verdicts.get(one, "pass"), "measured", answer=Answer()) for one in CHECKS)
        node = {"name": name, "vm_id": "", "vm_size": "Standard_ND96isr_H100_v5"}
        document = as_document(TierRun(tier, now, seconds, checks, results), node)
        found[f"hpcai_health_{tier}.prom"] = prometheus.as_text(document)
    return found


def answers(faulty: bool) -> slurm.Answers:
    """What Slurm's commands print."""
    now = time.time()
    drained = f" Reason=hpcai: gpu_count: 7 of 8 [root@{utc(now - 90000)}]"
    down = f" Reason=Not responding [slurm@{utc(now - 300)}]"
    states = [("compute-0", "ALLOCATED", "")]
    states += [("compute-1", "IDLE+DRAIN", drained), ("compute-2", "DOWN+NOT_RESPONDING", down)] if faulty else []
    states += [] if faulty else [("compute-1", "IDLE", ""), ("compute-2", "IDLE", "")]
    nodes = "".join(
        NODE.format(name=name, address=number + 5, state=state, reason=reason)
        for number, (name, state, reason) in enumerate(states)
    )
    jobs = f"{JOB}|alice|RUNNING|compute|{utc(now - 9000)}|{utc(now - (4000 if faulty else 8000))}|None|compute-0\n"
    if faulty:
        jobs += f"118|bob|PENDING|compute|{utc(now - 600)}|N/A|Resources|\n"
        jobs += f"{SHORT}|bob|RUNNING|compute|{utc(now - 700)}|{utc(now - 650)}|None|compute-0\n"
    gpus: dict[tuple[int, str], tuple[int, ...]] = {(JOB, "compute-0"): (0, 1)}
    figures = {"threads": 3, "agents": 0, "dbd": 0, "cycle": 3000, "queue": 0}
    figures = {"threads": 90, "agents": 40, "dbd": 5000, "cycle": 9_000_000, "queue": 800} if faulty else figures
    gpus = {(JOB, "compute-0"): (0, 1, 2), (SHORT, "compute-0"): (3,)} if faulty else gpus
    return slurm.Answers(nodes, jobs, SDIAG.format(**figures), gpus, not faulty)


def goodput(faulty: bool) -> str:
    """The ledger's text file for the last two hours: a training completes, or loses a node and work with it."""
    now = float(int(time.time()))
    began, failed = now - 7000, now - 3600

    def run(state: str, start: float, end: float, nodes: str) -> JobRun:
        return JobRun(50, state, start, start, start, start + 10, end, "0:0", nodes, "compute", "alice", "llama")

    runs = [run("COMPLETED", began, now - 100, "compute-[0-1]")]
    events = []
    if faulty:
        runs = [run("NODE_FAIL", began, failed, "compute-[0-1]"), run("COMPLETED", failed + 90, now - 100, "compute-0")]
        events = [Event("compute-1", failed - 20, None, "DOWN*", "slurm", "Not responding")]

    def read_runs(_since: float, _until: float, handle: Callable[[JobRun], None]) -> Skipped:
        for one in runs:
            handle(one)
        return Skipped()

    saved = index_of([Checkpoint("000000000010-50.0-w2", failed - 600, "llama")])
    sources = Sources(("compute-0", "compute-1", "compute-2"), events, read_runs, saved)
    return output.metrics(output.as_data(compute(sources, now - 7200, now), output.Rates()), now)


def elastic(root: Root, faulty: bool) -> str:
    """The text file of elastic sets; also their settings and costs, which the collection reads."""
    scale_set = (
        "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/g/providers/Microsoft.Compute"
        "/virtualMachineScaleSets/spot"
    )
    sets = {"spot": settings.ElasticSet(id=scale_set, max=2, price=10.0)}
    (pathlib.Path(root.at("/etc/hpcai"))).mkdir(parents=True, exist_ok=True)
    pathlib.Path(root.at("/etc/hpcai/elastic.json")).write_text(
        f'{{"schema": 1, "sets": {{"spot": {{"id": "{scale_set}", "max": 2, "price": 10}}}}}}', encoding="utf-8"
    )
    hours = {"work": 1.0, "idle": 3.0 if faulty else 0.0}
    day = elastic_cost.Day({"spot": hours}, {})
    elastic_cost.write(root, elastic_cost.Ledger({elastic_cost.date_of(time.time()): day}))
    kept = book.Book()
    if faulty:
        kept.wanted["spot-0"] = time.time()
    found = elastic_status.document(kept, None, settings.Settings(sets), [], "", time.time())
    return elastic_status.metrics(found)


def dcgm(faulty: bool, node: str = "compute-0") -> str:
    """A page in the format of dcgm-exporter, with its default counters."""
    lines = []
    for gpu in range(4):
        labels = (
            f'gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="0000000{gpu}:00:00.0",device="nvidia{gpu}",Hostname="{node}"'
        )
        values = {
            # Little, because the average over half an hour soon has to be below 5 %.
            "DCGM_FI_DEV_GPU_UTIL": 0 if faulty else 8,
            "DCGM_FI_DEV_XID_ERRORS": 79 if faulty and gpu == 1 else 0,
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 2 if faulty and gpu == 1 else 0,
            "DCGM_FI_DEV_ROW_REMAP_FAILURE": int(faulty and gpu == 1),
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": int(time.time()) if faulty else 0,
        }
        lines += [f"{name}{{{labels}}} {value}" for name, value in values.items()]
    return "\n".join(sorted(lines)) + "\n"


def put_infiniband(root: pathlib.Path, faulty: bool, tick: int) -> None:
    """Two ports; with faults, the second one is down, and has flapped and lost packets.

    :param tick: grows with each call, as the counters do.
    """
    for number, device in enumerate(("mlx5_ib0", "mlx5_ib1")):
        bad = faulty and number == 1
        put_port(root, device, state="DOWN" if bad else "ACTIVE", gbps=400)
        folder = root / f"sys/class/infiniband/{device}"
        for name, text in {"board_id": "MT_0000000838", "fw_ver": "28.40.1000", "hca_type": "MT4126"}.items():
            (folder / name).write_text(f"{text}\n", encoding="ascii")
        counters = folder / "ports/1/counters"
        counters.mkdir(exist_ok=True)
        speed = 10 if faulty else 1000
        values = {
            "port_rcv_data": tick * speed,
            "port_xmit_data": tick * speed,
            "port_xmit_wait": tick * (100 if faulty else 1),
            "link_downed": tick if bad else 0,
            "symbol_error": tick if bad else 0,
            "port_rcv_errors": tick if bad else 0,
        }
        for name, value in values.items():
            (counters / name).write_text(f"{value}\n", encoding="ascii")


class Monitored:
    """The folders of two machines: the controller ctl and the node compute-0."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.controller, self.node, self.sys = folder / "ctl", folder / "compute-0", folder / "ib"
        for path in (self.controller, self.node, self.sys / "sys"):
            path.mkdir(parents=True)
        self.root = Root(str(folder / "root"))
        self.tick = 0

    def write(self, faulty: bool) -> None:
        """Write everything again, as the product's services do."""
        self.tick += 1
        put_infiniband(self.sys, faulty, self.tick)
        controller = {
            "hpcai_elastic.prom": elastic(self.root, faulty),
            "hpcai_goodput.prom": goodput(faulty),
            "hpcai_slurm.prom": slurm_text(self.root, answers(faulty), time.monotonic(), time.time()),
        }
        verdicts = {"gpu_count": "fail", "scratch": "warn", "nccl_env": "unknown"} if faulty else {}
        node = {**health("compute-0", verdicts, 3.0 if faulty else 0.4), "hpcai_jobs.prom": self._jobs(faulty)}
        for folder, texts in ((self.controller, controller), (self.node, node)):
            for name, text in texts.items():
                temporary = folder / f".{name}"
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(folder / name)

    def _jobs(self, faulty: bool) -> str:
        kept, now = Progress(), time.time()
        done = b'{"kind": "%s", %s}'
        step, took = (41, 9.5) if faulty else (40, 1.5)
        kept.take(JOB, done % (b"train", b'"step": %d, "steps": 100, "step_seconds": %f' % (step, took)), now)
        kept.take(JOB, done % (b"checkpoint", b'"step": %d, "bytes": 100, "bytes_done": %d' % (step, step)), now)
        kept.take(JOB, done % (b"stage", b'"bytes": 100, "bytes_done": %d' % step), now)
        since = now - (50000 if faulty else 5000)
        daemons = ("meta", "storage") if faulty else ("storage",)
        held = layout.Holding(str(JOB), layout.BEEGFS, "/beeond", "/scratch/b", "/scratch", daemons, since=since)
        pathlib.Path(self.root.at("/run/hpcai")).mkdir(parents=True, exist_ok=True)
        layout.write_state(held, self.root)
        return jobs_text(self.root, kept, None, time.monotonic(), 0)
