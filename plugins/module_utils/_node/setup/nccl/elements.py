# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""XML elements of a topology file, written so that NCCL's own limited parser can read them."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...machine.cpuset import CpuSet, CpuSetError
from ...machine.pci import canonical_busid

_SPEED = re.compile(r"([0-9.]+)\s*GT/s.*")
# NCCL adds these when it dumps its topology; they are not part of a description.
_RUNTIME = ("host_hash", "keep")


class NoTopology(ValueError):
    """A text that is not an NCCL topology file."""


@dataclass(frozen=True)
class Element:
    """An XML element.

    :ivar tag: its name.
    :ivar attributes: its attributes, in order.
    :ivar children: its child elements.
    """

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: Sequence[Element] = ()

    def named(self, tag: str) -> Iterator[Element]:
        """Yield all descendants of this name."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.named(tag)


def as_text(element: Element, comment: str) -> str:
    """Return the file: a comment, then the element.

    NCCL's parser supports neither a declaration (``<?xml``), nor text, nor line breaks within a tag.
    """
    return f"<!-- {comment} -->\n" + "".join(_lines(element, ""))


def parse(text: str) -> Element:
    """Return the root element of a topology file.

    :raises NoTopology: it is not XML, or has another root element.
    """
    try:
        root = _element(xml.etree.ElementTree.fromstring(text))
    except (xml.etree.ElementTree.ParseError, ValueError) as error:
        raise NoTopology(f"it is not XML: {error}") from None
    if root.tag != "system":
        raise NoTopology(f"its root element is {root.tag!r}, not 'system'")
    return root


def meaning(element: Element) -> tuple[object, ...]:
    """Return the content of an element in a form where equivalent elements are equal.

    The order of siblings and attributes does not matter, nor how a busid, speed or mask is written. PCI ids of zero
    count as missing, because NCCL treats both alike.
    """
    attributes = {
        name: normal
        for name, value in element.attributes.items()
        if (normal := _normal(name, value)) is not None and name not in _RUNTIME
    }
    return (element.tag, tuple(sorted(attributes.items())), tuple(sorted(map(meaning, element.children), key=repr)))


def _lines(element: Element, indent: str) -> Iterator[str]:
    attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in element.attributes.items())
    if not element.children:
        yield f"{indent}<{element.tag}{attributes}/>\n"
        return
    yield f"{indent}<{element.tag}{attributes}>\n"
    for child in element.children:
        yield from _lines(child, indent + "  ")
    yield f"{indent}</{element.tag}>\n"


def _escaped(value: str) -> str:
    # Without xml.sax.saxutils, because it imports urllib, which takes longer than everything else.
    return value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def _element(found: xml.etree.ElementTree.Element) -> Element:
    return Element(found.tag, dict(found.attrib), tuple(map(_element, found)))


def _normal(name: str, value: str) -> str | None:
    if name in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
        return None if re.fullmatch(r"0x0+", value) else value.lower()
    if name in ("busid", "target"):
        return canonical_busid(value) or value
    if name == "affinity":
        try:
            return CpuSet.parse_mask(value).as_list()
        except CpuSetError:
            return value
    if name == "link_speed" and (match := _SPEED.fullmatch(value)):
        return f"{float(match[1]):g}"
    return value
