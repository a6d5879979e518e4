# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Slurm's configuration files, parsed as Slurm parses them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..machine.root import Root
from .hostlist import HostlistError, expand

_WORD = re.compile(r"(?P<key>[A-Za-z]\w*)\s*[-+*/]?=\s*(?P<value>\"[^\"]*\"|\S*)")
_INCLUDE = re.compile(r"\s*include\s+(?P<file>\S+)", re.IGNORECASE)
_DEEPEST_INCLUDE = 5
# Keys that start a line of their own kind; all other words of that line belong to it.
_NODE, _PARTITION = "nodename", "partitionname"
_LINES = (_NODE, _PARTITION, "nodeset", "downnodes", "frontendname")
# If such a list has as many words as there are nodes, each node has the word at its own position.
_BY_POSITION = ("nodeaddr", "nodehostname", "bcastaddr", "port")

Words = Mapping[str, str]


@dataclass(frozen=True)
class SlurmConf:
    """The content of slurm.conf. Keys are in lower case, because Slurm ignores their case.

    :ivar settings: values for the complete cluster; several values of one key are joined by line breaks.
    :ivar names: each of these keys in its original case.
    :ivar nodes: the words of each node, with those of the DEFAULT lines above it.
    :ivar partitions: the words of each partition, with those of the DEFAULT lines above it.
    :ivar others: lines of other kinds (NodeSet, DownNodes), unchanged.
    """

    settings: Words = field(default_factory=dict)
    names: Words = field(default_factory=dict)
    nodes: Mapping[str, Words] = field(default_factory=dict)
    partitions: Mapping[str, Words] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def read_conf(root: Root, folder: str) -> SlurmConf:
    """Return the content of the slurm.conf in a folder, with the files that it includes; empty if there is none."""
    return parse_conf("\n".join(_with_includes(root, folder, "slurm.conf", 0)))


def _with_includes(root: Root, folder: str, name: str, depth: int) -> Iterator[str]:
    text = root.text(name if name.startswith("/") else f"{folder}/{name}") or ""
    for line in meaningful_lines(text):
        included = _INCLUDE.match(line)
        if included and depth < _DEEPEST_INCLUDE:
            yield from _with_includes(root, folder, included["file"], depth + 1)
        else:
            yield line


def meaningful_lines(text: str) -> list[str]:
    """Return the lines without comments and empty lines, with continued lines joined and white space normalized."""
    joined = re.sub(r"\\[ \t]*\n", " ", text)
    lines = (re.split(r"(?<!\\)#", line)[0] for line in joined.splitlines())
    return [" ".join(line.split()) for line in lines if line.strip()]


def words_of(line: str) -> dict[str, str]:
    """Return the ``Key=value`` words of a line, with keys in lower case."""
    return {word["key"].lower(): word["value"].strip('"') for word in _WORD.finditer(line)}


def parse_conf(text: str) -> SlurmConf:
    """Return the content of a slurm.conf's text."""
    settings: dict[str, str] = {}
    names: dict[str, str] = {}
    by_kind: dict[str, dict[str, Words]] = {_NODE: {}, _PARTITION: {}}
    defaults: dict[str, dict[str, str]] = {_NODE: {}, _PARTITION: {}}
    others = []
    for line in meaningful_lines(text):
        first = next(_WORD.finditer(line), None)
        kind = first["key"].lower() if first else ""
        if kind in by_kind:
            words = words_of(line)
            listed = words.pop(kind)
            if listed.upper() == "DEFAULT":
                defaults[kind].update(words)
            else:
                by_kind[kind].update(_each(listed, {**defaults[kind], **words}))
        elif kind in _LINES:
            others.append(line)
        else:
            for word in _WORD.finditer(line):
                key, value = word["key"].lower(), word["value"].strip('"')
                names[key] = word["key"]
                settings[key] = f"{settings[key]}\n{value}" if key in settings else value
    return SlurmConf(settings, names, by_kind[_NODE], by_kind[_PARTITION], tuple(others))


def _each(listed: str, words: Words) -> dict[str, Words]:
    """Return the words of each name in a line's host list."""
    names = expanded(listed)
    lists = {key: expanded(value) for key, value in words.items() if key in _BY_POSITION}
    by_position = {key: values for key, values in lists.items() if len(values) == len(names)}
    return {
        name: {**words, **{key: values[place] for key, values in by_position.items()}}
        for place, name in enumerate(names)
    }


def expanded(listed: str) -> list[str]:
    """Return the names of a host list. A notation that only Slurm knows counts as one name."""
    try:
        return expand(listed)
    except HostlistError:
        return [listed]
