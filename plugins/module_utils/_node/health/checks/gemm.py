# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Whether the GPUs multiply matrices correctly, and at similar rates."""

from __future__ import annotations

from dataclasses import replace

from .. import cuda, deep
from ..applies import with_nvidia_gpus
from ..check import DEEP, FAIL, REPLACE, WARN, Answer, Check, Context, Finding, Reading
from ..deep import DISTURBING, limit_findings, must_be_idle, outliers
from ..settings import SITE, in_words

NAME = "gemm"

_RUN_S = 60.0
_WHAT = "the rate of matrix products"
_HINT = "Check clocks, power and temperature with 'hpcnode health run periodic'; then replace the node"


def measure(context: Context) -> Answer:
    """Multiply bfloat16 matrices on one GPU after the other."""
    present = deep.present_gpus(context)
    must_be_idle(context, GEMM)
    threshold = context.settings.threshold(context.size, NAME)
    readings, findings = [], []
    for gpu in present:
        answer, wrong = deep.measure_gpu(
            context,
            _WHAT,
            _RUN_S,
            lambda busid=gpu.busid: cuda.product_rate(busid),  # type: ignore[misc]
            gpu.busid,
        )
        if wrong:
            findings.append(wrong)
            continue
        limit = threshold.limit if threshold else None
        readings.append(Reading(NAME, round(answer["tflops"], 1), "TFLOP/s", gpu.busid, limit))
        if answer["wrong"]:
            words = f"a matrix product on {gpu.busid} has {answer['wrong']} wrong elements"
            findings.append(Finding(FAIL, words, gpu.busid, "Drain the node at once, and replace it", REPLACE))
    if threshold:
        missed = limit_findings(readings, threshold, _WHAT, _HINT)
        # The VM size's limit was measured with another program, with other matrices and clocks.
        findings += missed if threshold.source == SITE else [replace(one, verdict=WARN) for one in missed]
    reported = {finding.device for finding in findings}
    findings += [one for one in outliers(readings, _WHAT) if one.device not in reported]
    slowest = min((float(one.value) for one in readings), default=0)
    good = f"{len(readings)} GPUs, the slowest with {slowest:.4g} TFLOP/s, all results correct"
    return Answer(good, tuple(readings), tuple(findings), in_words(threshold) if threshold else "")


GEMM = Check(
    name=NAME,
    title="matrix products",
    explain=(
        "Multiplies matrices of 8192 x 8192 bfloat16 with cuBLAS on each GPU and checks each element of the result. "
        "The check fails if an element is wrong. It warns if both are true: the rate of a GPU is more than 5 percent "
        "below the median of the node's GPUs, and its modified z-score, a measure for outliers, is over 3.5. This "
        "comparison needs at least four GPUs. If a rate is below the VM size's limit, the check only warns, because "
        "this limit was measured with another program. If a rate is below your own limit gemm, the check fails."
    ),
    tiers=(DEEP,),
    measure=measure,
    applies=with_nvidia_gpus,
    limit_s=8 * _RUN_S + 30,
    action=REPLACE,
    fault="NHC2001",
    asks_device=True,
    thresholds=(NAME,),
    options=DISTURBING,
)
