# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The fabric of the NVSwitches: the fabric manager runs, and each GPU has joined."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.gpu import GpuHealth
from ...machine.unit_state import UnitState, read_unit
from ..applies import with_nvswitches
from ..check import FAIL, REBOOT, TIERS, UNKNOWN, WARN, Answer, Check, Context, Finding, Reading
from ..gpu_answers import Observation, gather, read_gpus, unreadable
from ..gpus import CHECK_LIMIT_S

MANAGER = "nvidia-fabricmanager"
_JOINED = "completed"
_LOG = f"Find the cause with 'journalctl -b -u {MANAGER}'; its version must be exactly the driver's"
_HINT = f"{_LOG}; restart the machine, and redeploy the VM if that does not help"


def _measure(context: Context) -> Answer:
    if not context.known_size.nvswitch:
        return Answer(skipped=f"{context.known_size.name} has no NVSwitch")
    observations: list[Observation] = list(judge_manager(read_unit(MANAGER, context.run)))
    for gpu in read_gpus(context):
        observations += unreadable(gpu) or _joined(gpu)
    return gather(
        observations, f"{MANAGER} is active, and no GPU reports that it has not joined", "state completed (NVML)"
    )


def judge_manager(state: UnitState) -> Iterator[Observation]:
    """Yield the fabric manager's state, and a finding if it does not run."""
    if state.load == "unknown":
        yield Finding(
            UNKNOWN, f"cannot get the state of {MANAGER} from systemd", hint=f"Try 'systemctl status {MANAGER}'"
        )
        return
    yield Reading("gpu_fabric_manager", state.words)
    if state.load != "loaded":
        hint = f"Install {MANAGER} of exactly the driver's version, or unmask it: no CUDA program starts without it"
        yield Finding(FAIL, f"{MANAGER} is {state.words}, but the NVSwitches need it", hint=hint, fault="")
    elif not state.is_active:
        yield Finding(FAIL, f"{MANAGER} is {state.words}, but the NVSwitches need it", hint=_LOG, fault="")


def _joined(gpu: GpuHealth) -> Iterator[Observation]:
    fabric = gpu.fabric
    if "fabric" in gpu.errors:
        yield Finding(UNKNOWN, f"{gpu.label} does not report whether it joined: {gpu.errors['fabric']}", gpu.device)
    # GPUs before H100 do not report this, so only the manager's state counts for them.
    if fabric is None:
        return
    yield Reading("gpu_fabric_state", fabric.state, device=gpu.device)
    if fabric.state != _JOINED:
        words = f"fabric down: {gpu.label} has not joined the NVSwitches ({fabric.state})"
        yield Finding(FAIL, words, gpu.device, _HINT)
    elif fabric.status:
        words = f"fabric down: {gpu.label} could not join the NVSwitches (NVML's error {fabric.status})"
        yield Finding(FAIL, words, gpu.device, _HINT)
    if fabric.unhealthy:
        yield Finding(FAIL, f"fabric down: a route of {gpu.label} through the NVSwitches is broken", gpu.device, _HINT)
    if fabric.degraded:
        yield Finding(WARN, f"{gpu.label} has reduced bandwidth through the NVSwitches", gpu.device, _HINT)


GPU_FABRIC = Check(
    name="gpu_fabric",
    title="Fabric of the NVSwitches",
    explain=(
        f"Only for VM sizes with NVSwitches. The service {MANAGER} is active. According to NVML, each GPU has joined "
        "the fabric without an error, and its routes through the NVSwitches work. GPUs older than H100 do not report "
        "this; on them, the check tests only the service. If a GPU reports reduced bandwidth, the check warns."
    ),
    tiers=TIERS,
    measure=_measure,
    applies=with_nvswitches,
    limit_s=CHECK_LIMIT_S,
    action=REBOOT,
    fault="NHC2016",
    blocks_job=True,
    blocks_boot=True,
)
