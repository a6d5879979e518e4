# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Limits and settings of Slurm's accounts, users and QOS: their names, and when two values are equal.

sacctmgr shows a limit in another form than it was given: 90 minutes as 01:30:00, resources by name. So both sides are
converted to one form before they are compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

UNSET = ""
"""How sacctmgr shows a setting that is not set."""
_CLEAR = "-1"
"""The value that clears a limit (sacctmgr(1))."""

COUNT, TRES, TIME, SECONDS, SHARE, NAMES, NUMBER, WORD = range(8)
"""Kinds of values: a whole number, resources with counts, minutes, seconds, fair share, names, a number, a word."""

ASSOCIATION: Mapping[str, int] = {
    "Fairshare": SHARE,
    "DefaultQOS": WORD,
    "QOS": NAMES,
    "Priority": COUNT,
    "GrpJobs": COUNT,
    "GrpJobsAccrue": COUNT,
    "GrpSubmitJobs": COUNT,
    "GrpTRES": TRES,
    "GrpTRESMins": TRES,
    "GrpTRESRunMins": TRES,
    "GrpWall": TIME,
    "MaxJobs": COUNT,
    "MaxJobsAccrue": COUNT,
    "MaxSubmitJobs": COUNT,
    "MaxTRESPerJob": TRES,
    "MaxTRESPerNode": TRES,
    "MaxTRESMinsPerJob": TRES,
    "MaxWallDurationPerJob": TIME,
}
"""Settings of an account or of a user in an account, by their names in sacctmgr(1)."""

QOS: Mapping[str, int] = {
    "Flags": NAMES,
    "GraceTime": SECONDS,
    "Priority": COUNT,
    "Preempt": NAMES,
    "PreemptMode": WORD,
    "PreemptExemptTime": TIME,
    "UsageFactor": NUMBER,
    "UsageThreshold": NUMBER,
    "LimitFactor": NUMBER,
    "GrpJobs": COUNT,
    "GrpJobsAccrue": COUNT,
    "GrpSubmitJobs": COUNT,
    "GrpTRES": TRES,
    "GrpTRESMins": TRES,
    "GrpTRESRunMins": TRES,
    "GrpWall": TIME,
    "MaxJobsPerAccount": COUNT,
    "MaxJobsPerUser": COUNT,
    "MaxSubmitJobsPerAccount": COUNT,
    "MaxSubmitJobsPerUser": COUNT,
    "MaxTRESPerJob": TRES,
    "MaxTRESPerNode": TRES,
    "MaxTRESPerAccount": TRES,
    "MaxTRESPerUser": TRES,
    "MaxTRESMinsPerJob": TRES,
    "MaxWallDurationPerJob": TIME,
    "MinTRESPerJob": TRES,
}
"""Settings of a QOS."""

# Common short names of some settings.
_ALIASES = {
    "maxwall": "MaxWallDurationPerJob",
    "maxtres": "MaxTRESPerJob",
    "maxtresmins": "MaxTRESMinsPerJob",
    "mintres": "MinTRESPerJob",
    "maxsubmit": "MaxSubmitJobs",
    "grpsubmit": "GrpSubmitJobs",
    "share": "Fairshare",
    "maxjobspu": "MaxJobsPerUser",
    "maxjobspa": "MaxJobsPerAccount",
    "maxsubmitpu": "MaxSubmitJobsPerUser",
    "maxsubmitpa": "MaxSubmitJobsPerAccount",
    "maxtrespu": "MaxTRESPerUser",
    "maxtrespa": "MaxTRESPerAccount",
}
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_DURATION = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")


class BadSetting(ValueError):
    """An invalid setting; the message says which, where, and which values are known."""


def given_settings(where: str, given: Mapping[str, Any], known: Mapping[str, int]) -> dict[str, str]:
    """Return the settings by their full names, in the form in which they are compared.

    :param where: whose settings they are, for the message.
    :raises BadSetting: a setting is unknown, or its value is invalid.
    """
    full = {name.lower(): name for name in known}
    full.update({short: name for short, name in _ALIASES.items() if name in known})
    settings: dict[str, str] = {}
    for name, value in given.items():
        full_name = full.get(str(name).lower())
        if full_name is None:
            raise BadSetting(f"{where}: {name} is not a known setting; known are {', '.join(sorted(known))}.")
        if full_name in settings:
            raise BadSetting(f"{where}: {full_name} is set twice.")
        settings[full_name] = canonical(f"{where}: {name}", known[full_name], value)
    return settings


def canonical(where: str, kind: int, value: Any) -> str:
    """Return the value in a form in which equal values compare as equal. None, and -1 for a limit, become UNSET.

    :raises BadSetting: it is invalid.
    """
    if value is None or value == "" or (str(value) == _CLEAR and kind != NAMES):
        return UNSET
    if isinstance(value, bool):
        raise BadSetting(f"{where} is {value!r}. Write it in quotes.")
    try:
        return _FORMS[kind](value)
    except (TypeError, ValueError, AttributeError):
        raise BadSetting(f"{where} is {value!r}, which is not {_EXPECTED[kind]}.") from None


def words_to_set(name: str, kind: int, before: str, after: str) -> str:
    """Return the word with which sacctmgr changes a setting from one value to another."""
    if kind == TRES:
        # sacctmgr changes only the listed resources and keeps the others.
        gone = set(_pairs(before)) - set(_pairs(after))
        return f"{name}=" + ",".join(
            [*(f"{key}={count}" for key, count in _pairs(after).items()), *(f"{key}={_CLEAR}" for key in sorted(gone))]
        )
    if after != UNSET:
        return f"{name}={after}"
    if kind == SHARE:
        return f"{name}=1"
    if kind == NAMES:
        return f"{name}={_CLEAR}" if name == "Flags" else f"{name}="
    return f"{name}={_CLEAR}"


def _whole_number(value: Any) -> str:
    return str(int(str(value)))


def _resources(value: Any) -> str:
    pairs = value if isinstance(value, Mapping) else _pairs(",".join(value) if _is_list(value) else str(value))
    counts = {str(name).lower(): str(count).strip() for name, count in pairs.items() if count is not None}
    return ",".join(f"{name}={_counted(name, count)}" for name, count in sorted(counts.items()) if count != _CLEAR)


def _counted(name: str, count: str) -> str:
    """Memory is shown in the largest unit that divides it: 102400 MiB as 100G."""
    if name not in ("mem", "vmem"):
        return _whole_number(count)
    number, unit = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtp]?)b?", count.lower()).groups()  # type: ignore[union-attr]
    mebibytes = float(number) * _UNITS[unit or "m"] / 2**20
    for letter, size in (("P", 2**30), ("T", 2**20), ("G", 2**10)):
        if mebibytes >= size and mebibytes % size == 0:
            return f"{mebibytes / size:g}{letter}"
    return f"{int(mebibytes)}M"


def _pairs(text: str) -> dict[str, str]:
    return {name.strip(): count.strip() for name, count in (pair.split("=", 1) for pair in text.split(",") if pair)}


def _minutes(value: Any) -> str:
    """MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS, DAYS-HOURS:MINUTES, DAYS-HOURS:MINUTES:SECONDS."""
    match = _DURATION.fullmatch(str(value).strip())
    if not match:
        raise ValueError
    fields = [int(field) for field in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*fields, 0, 0)[:3]
    else:
        hours, minutes, seconds = {1: (0, *fields, 0), 2: (0, *fields), 3: tuple(fields)}[len(fields)]
    return str(int(match["days"] or 0) * 1440 + hours * 60 + minutes + (1 if seconds >= 30 else 0))


def _seconds(value: Any) -> str:
    """A number means seconds; sacctmgr shows [DAYS-]HOURS:MINUTES:SECONDS."""
    days, dash, rest = str(value).rpartition("-")
    total = 0
    for field in rest.split(":"):
        total = total * 60 + int(field)
    return str(total + (int(days) * 86400 if dash else 0))


def _share(value: Any) -> str:
    return "parent" if str(value).lower() == "parent" else _whole_number(value)


def _names(value: Any) -> str:
    names = value if _is_list(value) else str(value).split(",")
    return ",".join(sorted({str(name).strip().lower() for name in names if str(name).strip()}))


def _number(value: Any) -> str:
    return f"{float(value):g}"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


_FORMS: Sequence[Callable[[Any], str]] = (
    _whole_number,
    _resources,
    _minutes,
    _seconds,
    _share,
    _names,
    _number,
    lambda value: str(value).strip().lower(),
)
_EXPECTED = (
    "a whole number",
    "resources with counts, such as {cpu: 64, gres/gpu: 8}",
    "minutes, or a time such as 2-12:00:00",
    "seconds",
    "a whole number or 'parent'",
    "a list of names",
    "a number",
    "a word",
)
