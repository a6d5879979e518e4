# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs as Slurm's generic resources: their part of node lines, and the lines of gres.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.hpcai.azure.plugins.module_utils._node.forms import cpus_of
from ansible_collections.hpcai.azure.plugins.module_utils._node.sku import VmSize
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.hostlist import compress
from ansible_collections.hpcai.azure.plugins.module_utils._node.slurm.releases import GPU_AUTODETECT, Release, shown

from .cluster import ClusterError, Node, in_order


def gpu_type(size: VmSize) -> str | None:
    """Return Slurm's Type of the size's GPUs, such as ``a100``, or None if the model is unknown. For ``AutoDetect``, it
    must be part of the driver's name of the GPU (gres.conf(5), "Type")."""
    model = re.sub(r"^(nvidia|tesla)[ _-]", "", (size.gpu_model or "").lower())
    match = re.match(r"[a-z0-9]+", model)
    return match[0] if match else None


def has_nvidia_gpus(size: VmSize) -> bool:
    """Whether the size has GPUs with a device file ``/dev/nvidiaN``. AMD's GPUs have other, still unknown files."""
    return bool(size.gpu_count) and not re.match(r"(amd[ _-])?mi\d", (size.gpu_model or "").lower())


def gres_of(size: VmSize) -> str | None:
    """Return the GPUs for a node line, such as ``gpu:a100:8``, or None if there are none."""
    if not has_nvidia_gpus(size):
        return None
    return ":".join(word for word in ("gpu", gpu_type(size), str(size.gpu_count)) if word)


def has_gpus_of(size: VmSize, line: Mapping[str, Any]) -> bool:
    """Whether a node line has the derived GPUs of the size, not other ones from the user's settings."""
    return has_nvidia_gpus(size) and line.get("Gres") == gres_of(size)


def device_lines(size: VmSize) -> list[dict[str, Any]]:
    """Return the keys of gres.conf for the GPUs of a size: one line for each CPU socket with GPUs.

    gres.conf(5) requires all cores of a socket, in Slurm's numbering. It equals that of Linux if each core has one
    thread. If the affinity is unknown, or there is one socket, ``Cores`` is omitted, and any core can be used.
    """
    if not has_nvidia_gpus(size):
        return []
    kind = {"Name": "gpu", "Type": gpu_type(size)}
    sockets = _sockets(size)
    if sockets is None:
        return [{**kind, "File": _files(range(size.gpu_count or 0))}]
    per_socket = size.cores_per_socket or 0
    return [
        {
            **kind,
            "File": _files([gpu for gpu, its in enumerate(sockets) if its == socket]),
            "Cores": f"{socket * per_socket}-{(socket + 1) * per_socket - 1}",
        }
        for socket in sorted(set(sockets))
    ]


def gres_lines(
    groups: Sequence[tuple[Mapping[str, Any], Sequence[Node]]],
    by_hand: Mapping[str, Any],
    autodetect: str,
    release: Release,
) -> list[dict[str, Any]]:
    """Return the lines of gres.conf: at most two for each VM size, for any number of nodes and sets.

    :param groups: node lines, each with its nodes. Nodes with another ``Gres`` than the derived one get no lines.
    :param by_hand: the user's lines, by VM size or by any name.
    :param autodetect: ``nvidia`` or ``nvml`` for static nodes. gres.conf(5): it "cannot be used with cloud nodes".
    :raises ClusterError: this release does not support ``autodetect``, or a line of the user is malformed.
    """
    if autodetect and (autodetect not in GPU_AUTODETECT or release < GPU_AUTODETECT[autodetect]):
        known = ", ".join(name for name, first in GPU_AUTODETECT.items() if release >= first)
        raise ClusterError(
            f"slurm_gpu_autodetect is {autodetect!r}: Slurm {shown(release)} only knows {known}. Leave it empty to use "
            "lines with device files, which every release supports."
        )
    by_size = {str(name).lower().removeprefix("standard_"): (str(name), lines) for name, lines in by_hand.items()}
    lines: list[dict[str, Any]] = []
    for short, members in _by_size(groups).items():
        size = members[0][1][0].size
        if short in by_size:
            lines += _lines_of_user(*by_size.pop(short), default=_names(members))
            continue
        derived = [member for member in members if has_gpus_of(size, member[0])]
        detected = [member for member in derived if autodetect and not is_cloud(member[0])]
        listed = [member for member in derived if member not in detected]
        if detected:
            lines.append({"NodeName": _names(detected), "AutoDetect": autodetect})
        if listed:
            lines += [{"NodeName": _names(listed), **line} for line in device_lines(size)]
    for name, user_lines in by_size.values():
        lines += _lines_of_user(name, user_lines, default=None)
    return lines


def gres_types(node_lines: Iterable[Mapping[str, Any]], lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the value of GresTypes: every type in the node lines and in gres.conf."""
    words = [word for line in node_lines for word in _words(line.get("Gres"))]
    kinds = {word.partition(":")[0] for word in words} | {str(line["Name"]) for line in lines if line.get("Name")}
    return sorted(kinds)


def is_cloud(node_line: Mapping[str, Any]) -> bool:
    """Whether the nodes of a line are CLOUD nodes."""
    return str(node_line.get("State") or "").upper().startswith("CLOUD")


def _words(value: Any) -> list[str]:
    listed = value if isinstance(value, (list, tuple)) else str(value or "").split(",")
    return [str(word) for word in listed if word]


def _sockets(size: VmSize) -> list[int] | None:
    """Return the socket of each GPU, or None if it is unknown, or if there is only one socket."""
    if size.threads_per_core != 1 or not size.cores_per_socket or (size.sockets or 1) < 2:
        return None
    cpus = {node.id: cpus_of(node.cpus) for node in size.numa_nodes or ()}
    sockets = []
    for gpu in size.gpus or ():
        its = {cpu // size.cores_per_socket for cpu in cpus.get(gpu.numa_node, ())}
        if len(its) != 1:
            return None
        sockets.append(its.pop())
    return sockets or None


def _files(gpus: Iterable[int]) -> str:
    return compress(f"/dev/nvidia{gpu}" for gpu in gpus)


def _by_size(groups: Iterable[tuple[Mapping[str, Any], Sequence[Node]]]) -> dict[str, list[Any]]:
    by_size: dict[str, list[Any]] = {}
    for line, nodes in groups:
        by_size.setdefault(nodes[0].size.name.lower().removeprefix("standard_"), []).append((line, nodes))
    return by_size


def _names(members: Iterable[tuple[Mapping[str, Any], Sequence[Node]]]) -> str:
    return compress(node.name for node in in_order(node for _line, nodes in members for node in nodes))


def _lines_of_user(name: str, lines: Any, default: str | None) -> list[dict[str, Any]]:
    """Return the user's lines. ``NodeName`` defaults to the nodes of the VM size."""
    found = []
    for line in [lines] if isinstance(lines, Mapping) else lines or []:
        if not isinstance(line, Mapping):
            raise ClusterError(f"slurm_gres.{name} must be a mapping of keys, a list of mappings, or null.")
        nodes = line.get("NodeName") or default
        if not nodes:
            raise ClusterError(
                f"slurm_gres.{name} has no NodeName, and no node has a VM size of that name: set NodeName, or use the "
                "name of a VM size of the cluster."
            )
        found.append({"NodeName": nodes, **{key: value for key, value in line.items() if key != "NodeName"}})
    return found
