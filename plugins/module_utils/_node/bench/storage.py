# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Throughput of the scratch and of BeeGFS across a job's nodes (BeeOND), with fio.

fio runs on all nodes at once, as the job's user, in a folder that the node creates and removes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from ..health.check import UNKNOWN, Answer, CannotMeasure, Finding, Reading
from ..machine.root import Root
from ..machine.run import Result, last_line
from ..sku.types import Threshold
from .benchmark import EACH, TOGETHER, Benchmark, Measured, Options, Step, check_whole, limit_findings, limit_words
from .on_node import TimedRun, by_hpcnode, read_answer

WAYS = ("read", "write")
_FIO = ("/usr/bin/fio", "/usr/local/bin/fio")
_RUN_S = 300
_SPARE_S = 60
_MOST_S = 120
"""Longest time for one direction, in seconds: both directions and the creation of the files must fit into _RUN_S."""
_DEFAULTS = {"seconds": "20", "size": "2G", "jobs": "8", "block": "1M", "direct": "1", "folder": ""}
_HINT = "Check the disks with 'hpcnode health run periodic --only nvme_smart --only scratch' and 'cat /proc/mdstat'"
BEEOND_FOLDER = "/beeond"
SCRATCH_FOLDER = "/scratch"
"""The default of the role cluster's ``hpcai_scratch``."""
COSMOFLOW_GBPS = 2.5
"""What CosmoFlow reads per node of eight V100: 300 MB/s per GPU (Microsoft's article on CosmoFlow with BeeOND)."""


def fio_command(program: str, folder: str, way: str, asked: Mapping[str, str]) -> list[str]:
    """Return the command line of fio for one direction."""
    # libaio is in each build for Linux. fio creates the files that it reads. Allocated blocks that were never written
    # would be read without access to the disk.
    return [
        program,
        "--name=hpcai",
        f"--directory={folder}",
        f"--rw={way}",
        f"--bs={asked['block']}",
        f"--size={asked['size']}",
        f"--numjobs={asked['jobs']}",
        f"--runtime={asked['seconds']}",
        f"--direct={asked['direct']}",
        *("--fallocate=none", "--time_based", "--group_reporting"),
        *("--ioengine=libaio", "--iodepth=16", "--output-format=json"),
    ]


def gbps_of(text: str, way: str) -> tuple[float | None, str]:
    """Return the GB/s (10^9 bytes) in fio's output, or None and the reason."""
    # fio writes notes before the JSON.
    begin = text.find("{")
    try:
        job = json.loads(text[begin:] if begin >= 0 else text)["jobs"][0]
        if job["error"]:
            return None, f"fio reports error {job['error']} ({os.strerror(int(job['error']))})"
        rate = float(job[way]["bw_bytes"]) / 1e9
        done = int(job[way]["io_bytes"])
    except (ValueError, LookupError, TypeError) as error:
        return None, f"fio's output cannot be read: {type(error).__name__}: {error}"
    return (rate, "") if done > 0 and rate > 0 else (None, f"fio transferred nothing ({way})")


def measure(root: Root, run: TimedRun, folder: str, asked: Mapping[str, str]) -> Answer:
    """Measure on this node: write, then read what was written.

    :param folder: a folder in which the job's user may create folders.
    :raises CannotMeasure: fio is not installed, the folder cannot be used, or this is root.
    """
    if os.geteuid() == 0:
        # root must not create, fill and remove folders where users can write.
        raise CannotMeasure("it does not run as root: start it as a user who may submit jobs")
    program = next((path for path in _FIO if root.exists(path)), None)
    if program is None:
        raise CannotMeasure("fio is not installed: install the distribution's package fio on the nodes")
    readings, findings = [], []
    with _own_folder(folder) as made:
        for way in reversed(WAYS):
            limit_s = int(float(asked["seconds"])) + _SPARE_S
            result = run(fio_command(program, made, way, asked), limit_s)
            rate, why = gbps_of(result.stdout, way)
            if rate is None or result.rc:
                words = why or f"fio failed with exit status {result.rc}: {last_line(result)}"
                findings.append(Finding(UNKNOWN, f"{way}: {words}"))
            else:
                readings.append(Reading(way, float(f"{rate:.4g}"), "GB/s"))
    return Answer(", ".join(f"{one.name} {one.value:g} GB/s" for one in readings), tuple(readings), tuple(findings))


@contextlib.contextmanager
def _own_folder(parent: str) -> Iterator[str]:
    try:
        made = tempfile.mkdtemp(prefix="hpcai-bench-", dir=parent)
    except OSError as error:
        raise CannotMeasure(f"no folder can be created in {parent}: {error.strerror}") from None
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def measure_here(name: str, root: Root, run: TimedRun, asked: Mapping[str, str]) -> Answer:
    """Measure the scratch or BeeGFS on this node.

    :raises CannotMeasure: as for ``measure``, or there is no such file system.
    """
    given = {**_DEFAULTS, **{key: value for key, value in asked.items() if value}}
    if name == BEEOND.name:
        folder = given["folder"] or BEEOND_FOLDER
        if not os.path.ismount(folder):
            raise CannotMeasure(f"{folder} is not mounted: give '--slurm=--constraint=beeond'")
        return measure(root, run, folder, given)
    return measure(root, run, given["folder"] or _users_scratch(), given)


def _users_scratch() -> str:
    """Return the user's own folder on the scratch, if there is one, else the scratch itself."""
    own = f"{SCRATCH_FOLDER}/{os.environ.get('USER', '')}"
    return own if os.access(own, os.W_OK) else SCRATCH_FOLDER


def step(benchmark: Benchmark, options: Options, nodes: Sequence[str]) -> Step:
    """Return the command: hpcnode measures on each node."""
    return by_hpcnode(benchmark, options)


def parse_scratch(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what one node measured."""
    answers = read_answer(benchmark, result)
    if isinstance(answers, Measured):
        return answers
    answer = next(iter(answers.values()))
    findings = list(answer.findings)
    limits = {way: options.threshold(f"scratch_{way}") for way in WAYS}
    readings = []
    for one in answer.readings:
        limit = limits.get(one.name)
        value = Reading(f"scratch_{one.name}", one.value, one.unit, "", limit.limit if limit else None)
        readings.append(value)
        # The source states what eight disks reach, and no limit.
        findings += limit_findings(value, limit, f"the rate at which the scratch is {_PAST[one.name]}", _HINT, False)
    words = limit_words(limits["read"])
    return Measured(Answer(answer.good, tuple(readings), tuple(findings), words))


_PAST = {"read": "read", "write": "written"}


def parse_beeond(benchmark: Benchmark, options: Options, nodes: Sequence[str], result: Result) -> Measured:
    """Return what all nodes measured at the same time: the sum, and the rate per node."""
    answers = read_answer(benchmark, result, len(nodes))
    if isinstance(answers, Measured):
        return answers
    findings = [finding for answer in answers.values() for finding in answer.findings]
    readings: list[Reading] = []
    good = []
    for way in WAYS:
        rates = [float(one.value) for answer in answers.values() for one in answer.readings if one.name == way]
        if len(rates) < len(nodes):
            continue
        mean, total = sum(rates) / len(rates), sum(rates)
        limit = _beeond_limit(options, way)
        device = f"{len(nodes)} nodes"
        value = Reading(f"beeond_{way}", float(f"{mean:.4g}"), "GB/s", device, limit.limit if limit else None)
        readings += [value, Reading(f"beeond_{way}_total", float(f"{total:.4g}"), "GB/s", device)]
        findings += limit_findings(value, limit, f"the rate per node ({way})", _BEEOND_HINT, stated=False)
        good.append(f"{way} {mean:.3g} GB/s per node, {total:.3g} GB/s in all")
    if not readings and not findings:
        findings.append(Finding(UNKNOWN, "no node measured anything"))
    return Measured(Answer("; ".join(good), tuple(readings), tuple(findings), _beeond_words(options)))


_BEEOND_HINT = (
    "Check the network with 'hpcnode bench run mpi_bandwidth', and the scratch with 'hpcnode bench run scratch'"
)


def _beeond_limit(options: Options, way: str) -> Threshold | None:
    own = options.threshold(f"beeond_{way}")
    if own is None and way == "read":
        return Threshold(COSMOFLOW_GBPS, "GB/s", "")
    return own


def _beeond_words(options: Options) -> str:
    own = {way: limit_words(options.threshold(f"beeond_{way}")) for way in WAYS}
    cosmoflow = f"at least {COSMOFLOW_GBPS:g} GB/s per node, which CosmoFlow reads (Microsoft's article)"
    shown = {"reading": own["read"] or cosmoflow, "writing": own["write"]}
    return "; ".join(f"{what}: {words}" for what, words in shown.items() if words)


def _check_option(name: str, text: str) -> None:
    if name in ("seconds", "jobs"):
        check_whole(text)
    if name == "seconds" and int(text) > _MOST_S:
        raise ValueError(f"give at most {_MOST_S} seconds")
    if name in ("size", "block") and not re.fullmatch(r"[1-9][0-9]*[kKmMgGtT]?", text):
        raise ValueError("give a size such as 4M or 2G")
    if name == "direct" and text not in ("0", "1"):
        raise ValueError("give 0 or 1")
    if name == "folder" and not text.startswith("/"):
        raise ValueError("give an absolute path")


SCRATCH = Benchmark(
    name="scratch",
    title="throughput of the scratch",
    explain="Writes and reads files with fio on each node's scratch, without the page cache, as the job's user. "
    "Microsoft states about 8 GB/s for eight NVMe disks of ND A100 v4; less than 90 % of that warns.",
    scope=EACH,
    step=step,
    parse=parse_scratch,
    limit_s=_RUN_S,
    thresholds=("scratch_read", "scratch_write"),
    options=_DEFAULTS,
    check_option=_check_option,
)
BEEOND = Benchmark(
    name="beeond",
    title="throughput of BeeGFS across the nodes",
    explain="Writes and reads files with fio on /beeond, on all nodes of a job at once (--slurm=--constraint=beeond). "
    "A read rate below 2.5 GB/s per node warns, because CosmoFlow needs this rate (Microsoft's article).",
    scope=TOGETHER,
    step=step,
    parse=parse_beeond,
    limit_s=_RUN_S,
    thresholds=("beeond_read", "beeond_write"),
    options=_DEFAULTS,
    check_option=_check_option,
)
