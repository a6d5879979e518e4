# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The form with which a user asks for a notebook, and the check of what comes back.

A browser can send anything. Whatever this module returns is one of the offered values, or a number within its limits,
or an image whose name has only characters without a meaning for shells and Slurm.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Of enroot: an image is [USER@][REGISTRY#]IMAGE[:TAG] or a path of a squashfs file. It is one argument of srun, so this
# only keeps out what would be an option (a leading "-") or what enroot cannot use.
_IMAGE = re.compile(r"(?:docker://)?[A-Za-z0-9/][A-Za-z0-9._/:@#+-]{0,254}")
_NUMBER = re.compile(r"[0-9]{1,4}")
NO_CONTAINER = ""


class FormProblem(ValueError):
    """Something in the form is not possible. The message is for the user, and is shown as text."""


@dataclass(frozen=True)
class Partition:
    """A partition that users may choose.

    :ivar gpus: GPUs of its largest node; 0 if it has none.
    :ivar cpus: processors of its largest node.
    :ivar minutes: its time limit; 0 if it has none.
    :ivar is_default: whether it is Slurm's default.
    """

    name: str
    gpus: int = 0
    cpus: int = 1
    minutes: int = 0
    is_default: bool = False


@dataclass(frozen=True)
class Offer:
    """What users may choose.

    :ivar hours: the longest time of a notebook.
    :ivar containers: images by the name that users see.
    :ivar own_containers: whether users may enter another image.
    """

    partitions: tuple[Partition, ...]
    hours: int = 8
    containers: Mapping[str, str] | None = None
    own_containers: bool = False


@dataclass(frozen=True)
class Choice:
    """What a user has chosen.

    :ivar most_minutes: the partition's time limit, which can be less than an hour; 0 if it has none.
    :ivar image: the container's image; empty for none.
    """

    partition: str
    gpus: int = 0
    cpus: int = 1
    hours: int = 1
    image: str = NO_CONTAINER
    most_minutes: int = 0

    @property
    def minutes(self) -> int:
        """The job's time limit."""
        return min(self.hours * 60, self.most_minutes or self.hours * 60)


def choice_of(form: Mapping[str, Sequence[str]], offer: Offer) -> Choice:
    """Check a form that a browser has sent.

    :raises FormProblem: a value is missing, sent twice or not possible.
    """
    unknown = sorted(form.keys() - {"partition", "gpus", "cpus", "hours", "container", "image", "_xsrf"})
    if unknown:
        raise FormProblem(f"The form has an unknown field: {shown(unknown[0])}")
    name = _one(form, "partition")
    partition = next((one for one in offer.partitions if one.name == name), None)
    if partition is None:
        raise FormProblem(f"There is no partition {shown(name)} here.")
    most = offer.hours if not partition.minutes else min(offer.hours, max(1, partition.minutes // 60))
    return Choice(
        partition=partition.name,
        gpus=_number(form, "gpus", 0, partition.gpus, "GPUs"),
        cpus=_number(form, "cpus", 1, partition.cpus, "CPU cores"),
        hours=_number(form, "hours", 1, most, "Hours"),
        image=_image(form, offer),
        most_minutes=partition.minutes,
    )


def shown(text: str) -> str:
    """Return the beginning of a text for a message, without control characters."""
    return repr(text[:40])


def _one(form: Mapping[str, Sequence[str]], field: str, default: str | None = None) -> str:
    values = list(form.get(field, [] if default is None else [default]))
    if len(values) != 1:
        raise FormProblem(f"The form needs exactly one value of {field}.")
    return str(values[0])


def _number(form: Mapping[str, Sequence[str]], field: str, least: int, most: int, name: str) -> int:
    text = _one(form, field)
    # int() would accept signs, blanks, underscores and the digits of other scripts.
    if not _NUMBER.fullmatch(text) or not text.isascii() or not least <= int(text) <= most:
        raise FormProblem(f"{name}: enter a number from {least} to {most}, not {shown(text)}.")
    return int(text)


def _image(form: Mapping[str, Sequence[str]], offer: Offer) -> str:
    own = _one(form, "image", "")
    chosen = _one(form, "container", "")
    if own:
        if not offer.own_containers:
            raise FormProblem("Choose a container from the list.")
        if not _IMAGE.fullmatch(own):
            raise FormProblem(f"{shown(own)} is not the name of a container image.")
        return own
    if not chosen:
        return NO_CONTAINER
    if chosen not in (offer.containers or {}):
        raise FormProblem(f"There is no container {shown(chosen)} in the list.")
    return str((offer.containers or {})[chosen])


def partitions_of(text: str, only: Sequence[str] = ()) -> tuple[Partition, ...]:
    """Read the partitions from ``sinfo --noheader --format='%P|%l|%c|%G'``, whose lines repeat for different nodes.

    :param only: names of the partitions to offer, in this order; empty for all.
    """
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) != 4:
            continue
        name, limit, cpus, gres = words
        before = found.get(name.rstrip("*"), Partition(name.rstrip("*")))
        found[before.name] = Partition(
            name=before.name,
            gpus=max(before.gpus, _gpus(gres)),
            cpus=max(before.cpus, int("".join(re.findall(r"^\d+", cpus)) or 1)),
            minutes=minutes_of(limit),
            is_default=name.endswith("*"),
        )
    if only:
        return tuple(found[name] for name in only if name in found)
    return tuple(sorted(found.values(), key=lambda one: (not one.is_default, one.name)))


def minutes_of(limit: str) -> int:
    """Return the minutes of a time limit as Slurm prints it (``1-00:00:00``, ``30:00``); 0 for none."""
    days, mark, clock = limit.rpartition("-")
    numbers = clock.split(":")
    if not all(number.isdigit() for number in [*numbers, *([days] if mark else [])]):
        return 0
    seconds = 0
    for number in ["0", "0", *numbers][-3:]:
        seconds = seconds * 60 + int(number)
    return (seconds + int(days or 0) * 86400) // 60


def _gpus(gres: str) -> int:
    return sum(int(count) for count in re.findall(r"gpu(?::[\w.-]+)?:(\d+)", gres))


def page(offer: Offer) -> str:
    """Return the form's fields as HTML, for JupyterHub's page."""
    partitions = "".join(_option(one.name, _label(one)) for one in offer.partitions)
    most_gpus = max((one.gpus for one in offer.partitions), default=0)
    most_cpus = max((one.cpus for one in offer.partitions), default=1)
    fields = [
        _field("partition", "Partition", _select("partition", partitions)),
        _field("gpus", "GPUs", _number_input("gpus", 0, most_gpus, 1 if most_gpus else 0)),
        _field("cpus", "CPU cores", _number_input("cpus", 1, most_cpus, 1)),
        _field("hours", "Hours, after which the notebook ends", _number_input("hours", 1, offer.hours, 1)),
    ]
    if offer.containers:
        choices = _option(NO_CONTAINER, "none") + "".join(_option(name, name) for name in offer.containers)
        fields.append(_field("container", "Container", _select("container", choices)))
    if offer.own_containers:
        example = "nvcr.io#nvidia/pytorch:25.04-py3"
        entry = f'<input class="form-control" id="image" name="image" maxlength="255" placeholder="{example}">'
        fields.append(_field("image", "Another container image (with ipykernel)", entry))
    return "\n".join(fields)


def _label(partition: Partition) -> str:
    parts = [f"{partition.gpus} GPUs" if partition.gpus else "no GPU", f"{partition.cpus} cores"]
    if partition.minutes:
        hours = partition.minutes // 60
        parts.append(f"at most {hours} h" if hours else f"at most {partition.minutes} min")
    return f"{partition.name} ({', '.join(parts)} per node)"


def _option(value: str, label: str) -> str:
    return f'<option value="{html.escape(value)}">{html.escape(label)}</option>'


def _number_input(name: str, least: int, most: int, value: int) -> str:
    limits = f'min="{least}" max="{most}" value="{value}"'
    return f'<input class="form-control" type="number" id="{name}" name="{name}" {limits} required>'


def _select(name: str, options: str) -> str:
    return f'<select class="form-control" id="{name}" name="{name}">{options}</select>'


def _field(name: str, label: str, control: str) -> str:
    return f'<div class="mb-3"><label class="form-label" for="{name}">{label}</label>{control}</div>'
