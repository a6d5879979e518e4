# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rollout says at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MOST = 20
"""Most nodes in a message."""


def set_line(scale_set: Mapping[str, Any]) -> str:
    """Return a line about the image of a scale set and its instances."""
    image, before = str(scale_set["image"]), str(scale_set["before"])
    change = "" if image == before else f", before {before}"
    outdated, current = len(scale_set["outdated"]), len(scale_set["current"])
    return f"{scale_set['name']}: {image}{change}; {current} of {outdated + current} instances have it"


def report(result: Mapping[str, Any], scale_sets: Iterable[Mapping[str, Any]], check: bool = False) -> str:
    """Return the result of a rollout as text.

    :param result: what ``slurm_roll`` returned.
    :param scale_sets: what ``vmss_image`` returned.
    """
    to_do, left_out = list(result["to_do"]), dict(result["left_out"])
    if check:
        parts = [f"Would get the image: {_names(to_do)}."]
    else:
        parts = [f"Reimaged: {_names(result['reimaged'])}. Resumed: {_names(result['resumed'])}."]
    if result["stopped"]:
        parts.insert(0, f"Stopped: {str(result['stopped']).rstrip('.')}.")
        parts += _after_a_stop(result, scale_sets)
    if left_out:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:_MOST])
        more = f"; and {len(left_out) - _MOST} more" if len(left_out) > _MOST else ""
        parts.append(f"Left out, with another image: {reasons}{more}. Run this again when they are in service.")
    return " ".join(parts)


def _after_a_stop(result: Mapping[str, Any], scale_sets: Iterable[Mapping[str, Any]]) -> list[str]:
    parts = []
    if result["drained"]:
        parts.append(f"Still drained: {_names(result['drained'])}.")
    if result["to_do"]:
        parts.append(f"These nodes have another image: {_names(result['to_do'])}.")
    earlier = sorted({str(item["before"]) for item in scale_sets if item["before"] != item["image"]})
    back = f" -e image={earlier[0]}" if len(earlier) == 1 else " with the image before"
    parts.append(f"New instances get the new image. To continue, run this again. To go back, run it{back}.")
    return parts


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST} more" if len(listed) > _MOST else ""
    return (", ".join(listed[:_MOST]) or "none") + more
