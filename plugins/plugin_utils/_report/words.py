# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts and symbols of the page, for the part that Python renders and for its script."""

from __future__ import annotations

from typing import Any

from .gather import STATES, state_word

SYMBOLS = {
    "fail": "M4 4l8 8M12 4l-8 8",
    "no_answer": "M3.5 12.5l9-9M8 2.5a5.5 5.5 0 1 0 .01 0",
    "unknown": "M5.3 6a2.7 2.7 0 1 1 4.2 2.2C8.5 8.900 8 9.300 8 10.300M8 13v.3",
    "warn": "M8 2.500l6 11H2zM8 6.800v3M8 11.800v.2",
    "pass": "M3.500 8.500l3 3 6-7",
    "skip": "M5 8h6",
}
"""Lines of a picture of 16 by 16 for each state, because colour alone must not distinguish them."""

_MEANINGS = {
    "fail": "has a problem",
    "no_answer": "gave no result",
    "unknown": "could not be measured",
    "warn": "needs attention, jobs may run",
    "pass": "no problem",
    "skip": "does not apply",
}

ACTIONS = {
    "nothing": "",
    "observe": "observe it",
    "reset_gpu": "reset the GPU",
    "reboot": "restart the machine",
    "replace": "redeploy or replace the instance",
}


def states_for_script() -> dict[str, dict[str, Any]]:
    """Return the states, the worst first, as words.js reads them."""
    return {
        state: {"label": state_word(state), "order": order, "path": SYMBOLS[state], "means": _MEANINGS[state]}
        for order, state in enumerate(STATES)
    }


def action_words(action: str) -> str:
    """Return a check's action as text for people."""
    return ACTIONS.get(action, action)


def many(count: int, word: str) -> str:
    """Return a number of things."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
