# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The GPUs' state: temperature, power, clocks and what lowers them, persistence mode, MIG mode."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuError, GpuFacts, GpuHealth, read_load
from ...machine.gpu.facts import DIED, NO_ANSWER
from ...machine.gpu.health import HARDWARE, HARDWARE_THERMAL, POWER_BRAKE, POWER_CAP, THERMAL
from ...setup.clocks import ClockOptions, Lock, chosen, job_gpus, plan, read_options, read_record
from ..applies import with_nvidia_gpus
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    OBSERVE,
    PERIODIC,
    PROLOG,
    UNKNOWN,
    WARN,
    Answer,
    CannotMeasure,
    Check,
    Context,
    Finding,
    Reading,
)
from ..gpu_answers import Observation, gather, judge_each, not_reported
from ..gpus import CHECK_LIMIT_S

# Why the GPUs' clocks are not higher: temperature, hardware, power.

_HEAT = "NHC2017"
_HARD = (
    (HARDWARE_THERMAL, "it is too hot (HW thermal slowdown)", _HEAT),
    (POWER_BRAKE, "its power supply requests it (HW power brake)", "NHC2010"),
    (HARDWARE, "of temperature or power (HW slowdown)", "NHC2010"),
)
_THROTTLE_HINT = "See 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER'; redeploy the VM if this persists"


def _measure_throttle(context: Context) -> Answer:
    good = "nothing slows the GPUs down"
    return judge_each(context, "the reasons for its clocks", "reasons", _judge_throttle, good)


def _judge_throttle(gpu: GpuHealth) -> Iterator[Observation]:
    if gpu.reasons is None:
        return
    yield Reading("gpu_clock_reasons", gpu.reasons, device=gpu.device)
    # Several bits are usually set at once: the general hardware bit comes with the specific ones.
    hard = next(((words, fault) for bit, words, fault in _HARD if gpu.reasons & bit), None)
    if hard:
        words = f"the hardware slows {gpu.label} down because {hard[0]}"
        yield Finding(FAIL, words, gpu.device, _THROTTLE_HINT, fault=hard[1])
    elif gpu.reasons & THERMAL:
        words = f"the driver slows {gpu.label} down because it is too hot (SW thermal slowdown)"
        yield Finding(WARN, words, gpu.device, _THROTTLE_HINT)
    if gpu.reasons & POWER_CAP and _is_power_limit_lowered(gpu):
        words = (
            f"a power limit of {gpu.power_limit:g} W, below the default {gpu.power_default:g} W, slows {gpu.label} down"
        )
        yield Finding(WARN, words, gpu.device, "'nvidia-smi -pl' sets it")


def _is_power_limit_lowered(gpu: GpuHealth) -> bool:
    return gpu.power_limit is not None and gpu.power_default is not None and gpu.power_limit < gpu.power_default


GPU_THROTTLE = Check(
    name="gpu_throttle",
    title="What slows the GPUs down",
    explain=(
        "Reads from the driver why the GPUs' clocks are not higher. The check fails if the hardware slows a GPU down "
        "because of temperature or power. It warns if the driver slows a GPU down because of temperature, or because "
        "of a power limit below the GPU's default. Other reasons are normal, such as an idle GPU, clocks that somebody "
        "has set, or the default power limit of a GPU under load (NVIDIA, nvml.h)."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure_throttle,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
    fault=_HEAT,
)


# The GPUs' temperatures, compared with each GPU's own limits.

_TEMPERATURE_HINT = "Compare it with the other nodes; redeploy the VM if this persists: its host is not cooled well"


def _measure_temperature(context: Context) -> Answer:
    limit = "below the GPU's slowdown temperature; above its maximum operating temperature it warns (NVML)"
    return judge_each(context, "its temperature", "temperature", _judge_temperature, "the GPUs are cool enough", limit)


def _judge_temperature(gpu: GpuHealth) -> Iterator[Observation]:
    if gpu.temperature is None:
        return
    yield Reading("gpu_temperature", gpu.temperature, "C", gpu.device, gpu.slowdown_at, at_most=True)
    if gpu.slowdown_at is None:
        yield not_reported(gpu, "its slowdown temperature", "slowdown_at")
    elif gpu.temperature >= gpu.slowdown_at:
        words = f"{gpu.label} is at {gpu.temperature} C: the hardware slows it down at {gpu.slowdown_at} C"
        yield Finding(FAIL, words, gpu.device, _TEMPERATURE_HINT)
    elif gpu.most is not None and gpu.temperature > gpu.most:
        words = f"{gpu.label} is at {gpu.temperature} C, above its maximum operating temperature of {gpu.most} C"
        yield Finding(WARN, words, gpu.device, _TEMPERATURE_HINT)


GPU_TEMPERATURE = Check(
    name="gpu_temperature",
    title="Temperature of the GPUs",
    explain=(
        "Each GPU is cooler than the temperature at which its hardware slows it down. Above the GPU's maximum "
        "operating temperature, the check warns. NVML reports both temperatures for each GPU."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure_temperature,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
    fault="NHC2017",
)


# The GPUs' power, and whether somebody has lowered their power limits.


def _measure_power(context: Context) -> Answer:
    good = "each GPU has the default power limit of its model"
    return judge_each(context, "its power limit", "power_limit", _judge_power, good, "the GPU's default limit")


def _judge_power(gpu: GpuHealth) -> Iterator[Observation]:
    if gpu.power is not None:
        yield Reading("gpu_power", gpu.power, "W", gpu.device)
    if gpu.power_limit is None or gpu.power_default is None:
        yield not_reported(gpu, "its power limit", "power_limit" if gpu.power_limit is None else "power_default")
        return
    yield Reading("gpu_power_limit", gpu.power_limit, "W", gpu.device, gpu.power_default)
    if gpu.power_limit < gpu.power_default:
        words = f"{gpu.label} has a power limit of {gpu.power_limit:g} W, but its default is {gpu.power_default:g} W"
        hint = f"If that is not intended: 'nvidia-smi -i {gpu.index} -pl {gpu.power_default:g}'"
        yield Finding(WARN, words, gpu.device, hint)


GPU_POWER = Check(
    name="gpu_power",
    title="Power of the GPUs",
    explain=(
        "Measures the power of each GPU. The check warns if the GPU's power limit is lower than the default of its "
        "model. The driver reports both limits."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_power,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
)


# The GPUs' clocks are those in the settings of gpu_clocks.


def _measure_clocks(context: Context) -> Answer:
    options = read_options(context.root)
    if options is None:
        return Answer(skipped="no /etc/hpcai/clocks.json, so no clocks are set")
    try:
        gpus = chosen(context.gpus.facts(), options.gpus)
    except ValueError as error:
        raise CannotMeasure(f"/etc/hpcai/clocks.json: {error}") from None
    except GpuError as error:
        if error.kind in (NO_ANSWER, DIED):
            raise
        raise CannotMeasure(f"the GPUs' driver cannot be queried: {error}") from None
    if not gpus:
        raise CannotMeasure("the driver shows no GPU")
    # A job that asked for the highest clocks has its own, until its epilog.
    of_jobs = {index for theirs in job_gpus(context.root).values() for index in theirs}
    gpus = tuple(gpu for gpu in gpus if gpu.index not in of_jobs)
    if not gpus:
        return Answer(skipped="all GPUs have the clocks that their jobs asked for")
    record = read_record(context.root, read_load(context.root))
    observations = [one for gpu in gpus for one in _judge_clocks(gpu, record.get(gpu.uuid or ""), options)]
    limit = f"{options.state} (/etc/hpcai/clocks.json)"
    return gather(observations, f"the clocks of {len(gpus)} GPUs are as wanted ({options.state})", limit)


def _judge_clocks(gpu: GpuFacts, recorded: Lock | None, options: ClockOptions) -> Iterator[Observation]:
    device = gpu.busid or f"GPU {gpu.index}"
    planned = plan(gpu, recorded, options)
    if planned.problem:
        yield Finding(UNKNOWN, f"{gpu.label} does not report its clocks: {planned.problem}", device)
        return
    if gpu.current.graphics is not None:
        yield Reading("gpu_graphics_clock", gpu.current.graphics, "MHz", device)
    if gpu.current.memory is not None:
        yield Reading("gpu_memory_clock", gpu.current.memory, "MHz", device)
    if planned.unsupported and options.on_unsupported == "fail":
        words = f"{gpu.label} does not support the configured clocks: {planned.unsupported}"
        yield Finding(WARN, words, device, "Choose another method for gpu_clocks, or on_unsupported: warn")
    elif planned.actions:
        why = "; ".join(planned.reasons) or "something was changed"
        words = f"{gpu.label} does not have the configured clocks: {why}"
        yield Finding(WARN, words, device, "Run 'hpcnode clocks apply'")
    elif gpu.current.graphics is None and gpu.current.memory is None:
        yield Finding(UNKNOWN, f"{gpu.label} does not report its clocks", device)


GPU_CLOCKS = Check(
    name="gpu_clocks",
    title="Clocks of the GPUs",
    explain=(
        "The clocks of each GPU are those in /etc/hpcai/clocks.json, which the role gpu writes from its variable "
        "gpu_clocks. The driver reports application clocks, but not locked clocks. So the check reads from "
        "/run/hpcai/clocks.json which clocks hpcnode has locked since the driver was loaded. If a job has requested "
        "the highest clocks, its GPUs are ignored. The check only warns: 'hpcnode clocks apply' corrects the "
        "clocks."
    ),
    tiers=(PERIODIC, BOOT),
    measure=_measure_clocks,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
)


# Persistence mode: the driver keeps unused GPUs initialised.


def _measure_persistence(context: Context) -> Answer:
    return judge_each(
        context, "whether persistence mode is on", "persistence", judge_persistence, "persistence mode is on"
    )


def judge_persistence(gpu: GpuHealth) -> Iterator[Observation]:
    """Yield whether persistence mode of a GPU is on, and a warning if it is off."""
    if gpu.persistence is None:
        return
    yield Reading("gpu_persistence", int(gpu.persistence), device=gpu.device, limit=1)
    if not gpu.persistence:
        words = f"persistence mode of {gpu.label} is off: the driver loses its clocks, and each job starts slowly"
        hint = "Run 'systemctl enable --now nvidia-persistenced', or use gpu_clocks with persistence: true"
        yield Finding(WARN, words, gpu.device, hint)


GPU_PERSISTENCE = Check(
    name="gpu_persistence",
    title="Persistence mode of the GPUs",
    explain=(
        "According to NVML, persistence mode is on; otherwise the check warns. The service nvidia-persistenced or a "
        "setting can turn the mode on."
    ),
    tiers=(PROLOG, PERIODIC, BOOT),
    measure=_measure_persistence,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
)


# MIG: no GPU is partitioned unless that is configured.


def _measure_mig(context: Context) -> Answer:
    expected = bool(context.option(GPU_MIG, "enabled"))

    def judge(gpu: GpuHealth) -> Iterator[Observation]:
        if "mig" in gpu.errors:
            return
        yield Reading("gpu_mig", "none" if gpu.mig is None else "on" if gpu.mig else "off", device=gpu.device)
        if bool(gpu.mig) != expected:
            if gpu.mig:
                words = f"MIG mode of {gpu.label} is on: programs see parts of it, and NCCL cannot use them together"
            else:
                words = f"MIG mode of {gpu.label} is off, but should be on"
            hint = f"Drain the node, run 'nvidia-smi -i {gpu.index} -mig {int(expected)}'; or set the option enabled"
            yield Finding(WARN, words, gpu.device, hint)

    state = "on" if expected else "off"
    return judge_each(context, "whether MIG mode is on", "mig", judge, f"MIG mode is {state}, as configured", state)


GPU_MIG = Check(
    name="gpu_mig",
    title="MIG mode of the GPUs",
    explain=(
        "MIG mode is off on each GPU. If you set the option enabled to true (default: false), MIG mode must be on "
        "instead. The check warns about a GPU in the wrong mode."
    ),
    tiers=(PROLOG, PERIODIC, BOOT),
    measure=_measure_mig,
    applies=with_nvidia_gpus,
    limit_s=CHECK_LIMIT_S,
    action=OBSERVE,
    options={"enabled": False},
)
