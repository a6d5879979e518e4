# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cluster costs per day, at its smallest and at its largest size: hours x list price. Pure.

An unknown price makes the sum a lower bound, which is marked as one. It never counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.sku.prices import (
    BASTION,
    NAT_GATEWAY,
    PUBLIC_ADDRESS,
    SHARE_GIB,
    PriceList,
)

from .preflight_needs import PREMIUM, STANDARD_HDD, STANDARD_SSD, Machines, Needs

HOURS = 24
NETWORK, STORAGE = "network", "storage"
"""Owners of costs that no machine has."""
_LETTERS = {PREMIUM: "p", STANDARD_SSD: "e", STANDARD_HDD: "s"}
# Sizes of managed disks in GiB by the number of their tier (P10 has 128 GiB); Azure bills the next larger tier. From
# MicrosoftDocs, "Azure managed disk types". Standard HDD begins with S4.
_TIERS = {
    1: 4, 2: 8, 3: 16, 4: 32, 6: 64, 10: 128, 15: 256, 20: 512, 30: 1024,
    40: 2048, 50: 4096, 60: 8192, 70: 16384, 80: 32767,
}  # fmt: skip


@dataclass(frozen=True)
class CostLine:
    """Something that costs money per hour.

    :ivar owner: whose cost it is: a scale set, a virtual machine, ``network`` or ``storage``.
    :ivar what: what it is, for people.
    :ivar size: VM size, for machines.
    :ivar item: item of the price file, for everything else; empty if its price cannot be known from a price file.
    :ivar spot: whether the price for spot applies.
    :ivar least: number of units at the smallest size of the cluster.
    :ivar most: number of units at the largest size.
    """

    owner: str
    what: str
    size: str = ""
    item: str = ""
    spot: bool = False
    least: int = 1
    most: int = 1


@dataclass(frozen=True)
class Line:
    """The cost of a piece, or of all pieces of an owner.

    :ivar owner: as in ``Piece``.
    :ivar what: as in ``Piece``; for a sum, how many machines.
    :ivar least: number of units at the smallest size.
    :ivar most: number of units at the largest size.
    :ivar hourly: price of one unit per hour; None if it is unknown.
    :ivar day_least: cost per day at the smallest size; None if it is unknown. No units cost 0 at any price.
    :ivar day_most: cost per day at the largest size; None if it is unknown.
    """

    owner: str
    what: str
    least: int
    most: int
    hourly: float | None
    day_least: float | None
    day_most: float | None


@dataclass(frozen=True)
class Sum:
    """The known cost per day.

    :ivar least: at the smallest size.
    :ivar most: at the largest size.
    :ivar least_complete: whether all prices of the smallest size were known. If not, the cost is at least ``least``.
    :ivar most_complete: whether all prices of the largest size were known. If not, the cost is at least ``most``.
    """

    least: float
    most: float
    least_complete: bool
    most_complete: bool


@dataclass(frozen=True)
class Cost:
    """The cost of a cluster.

    :ivar currency: three letters; empty without a price file.
    :ivar date: the day of the prices; empty without a price file.
    :ivar source: where the prices are from.
    :ivar lines: every piece, in the order of the machines.
    :ivar by_owner: the sums by owner, in the same order.
    :ivar total: the sum of all.
    :ivar unknown: what has no known price, for people.
    :ivar not_included: what costs money and is not part of the sum.
    """

    currency: str
    date: str
    source: str
    lines: tuple[Line, ...]
    by_owner: dict[str, Sum]
    total: Sum
    unknown: tuple[str, ...]
    not_included: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


NOT_INCLUDED = (
    "traffic (NAT gateway, public address, peerings, other regions)",
    "content of the storage account, its requests and its earlier versions",
    "key vault requests, snapshots, gallery images, monitoring, support",
    "taxes, discounts, reservations and savings plans",
)
"""What no price file of this form can say."""


def pieces_of(needs: Needs) -> list[CostLine]:
    """Return everything of a cluster that has a price per hour."""
    pieces = [piece for machines in needs.machines for piece in _of_machines(machines)]
    if needs.nat_gateways:
        count = needs.nat_gateways
        pieces.append(CostLine(NETWORK, "NAT gateway", item=NAT_GATEWAY, least=count, most=count))
    if needs.public_addresses:
        count = needs.public_addresses
        pieces.append(CostLine(NETWORK, "public address", item=PUBLIC_ADDRESS, least=count, most=count))
    if needs.bastions:
        pieces.append(CostLine(NETWORK, "Azure Bastion", item=BASTION, least=needs.bastions, most=needs.bastions))
    for name, disk_type, gib in needs.disks:
        words = f"disk {name} {gib} GiB {disk_type}"
        pieces.append(CostLine(STORAGE, words, item=disk_item(disk_type, gib)))
    for name, gib in needs.share_gib:
        pieces.append(CostLine(STORAGE, f"GiB of share {name}", item=SHARE_GIB, least=gib, most=gib))
    return pieces


def _of_machines(machines: Machines) -> Iterator[CostLine]:
    least, most = machines.minimum, machines.maximum
    words = f"{machines.vm_size}{' (spot)' if machines.spot else ''}"
    yield CostLine(machines.label, words, size=machines.vm_size, spot=machines.spot, least=least, most=most)
    if not machines.ephemeral:
        item = disk_item(machines.disk_type, machines.disk_gib)
        size = f"{machines.disk_gib} GiB" if machines.disk_gib else "of the image's size"
        yield CostLine(machines.label, f"OS disk {size} {machines.disk_type}", item=item, least=least, most=most)


def disk_item(disk_type: str, gib: int | None) -> str:
    """Return the price file's item for a managed disk; empty if its tier is not known."""
    letter = _LETTERS.get(disk_type)
    if letter is None or gib is None:
        return ""
    tiers = (number for number, size in _TIERS.items() if size >= gib and (number >= 4 or letter != "s"))
    tier = next(tiers, None)
    return f"disk_{letter}{tier}" if tier else ""


def cost_of(needs: Needs, prices: PriceList | None) -> Cost:
    """Return the cost of a cluster.

    :param prices: the price file; None if there is none: then all prices are unknown.
    """
    lines = tuple(_line(piece, needs.location, prices) for piece in pieces_of(needs))
    owners = dict.fromkeys(line.owner for line in lines)
    unknown = [f"{line.owner}: {line.what}" for line in lines if line.hourly is None]
    return Cost(
        currency=prices.currency if prices else "",
        date=prices.date if prices else "",
        source=prices.source if prices else "",
        lines=lines,
        by_owner={owner: _sum(line for line in lines if line.owner == owner) for owner in owners},
        total=_sum(lines),
        unknown=tuple(unknown),
        not_included=(*needs.unpriced, *NOT_INCLUDED),
    )


def _line(piece: CostLine, region: str, prices: PriceList | None) -> Line:
    hourly = None
    if prices:
        hourly = prices.of_size(region, piece.size, piece.spot) if piece.size else prices.of_item(region, piece.item)
    return Line(
        piece.owner,
        piece.what,
        piece.least,
        piece.most,
        hourly,
        _per_day(piece.least, hourly),
        _per_day(piece.most, hourly),
    )


def _per_day(count: int, hourly: float | None) -> float | None:
    if count == 0:
        return 0.0
    return None if hourly is None else count * hourly * HOURS


def _sum(lines: Iterable[Line]) -> Sum:
    of_all = list(lines)
    return Sum(
        math.fsum(line.day_least for line in of_all if line.day_least is not None),
        math.fsum(line.day_most for line in of_all if line.day_most is not None),
        all(line.day_least is not None for line in of_all),
        all(line.day_most is not None for line in of_all),
    )
