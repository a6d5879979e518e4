# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the base image is, and which components of a node it has."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ...machine.kernel import has_secure_boot
from ...machine.os_release import read_os_release
from ...machine.root import Root

COMPONENT_VERSIONS = "/opt/azurehpc/component_versions.txt"
"""Azure's HPC images list their components in this file (github.com/Azure/azhpc-images)."""
AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"
"""The chassis asset tag of every Azure machine; cloud-init detects Azure by the same tag."""
_SIGNS = {
    "driver": ("/usr/bin/nvidia-smi",),
    "persistenced": ("/usr/bin/nvidia-persistenced",),
    "fabricmanager": ("/usr/bin/nv-fabricmanager",),
    "dcgm": ("/usr/bin/dcgmi", "/usr/bin/nv-hostengine"),
    "rdma": ("/usr/bin/ofed_info",),
}
_NVIDIA, _DISPLAY = "0x10de", "0x03"


@dataclass(frozen=True)
class BaseImage:
    """The base image.

    :ivar os: distribution and version, as ``debian-12``.
    :ivar hpc_image: it is one of Azure's HPC images.
    :ivar versions: the component versions that such an image lists.
    :ivar present: names of installed components, whoever installed them.
    :ivar gpus: NVIDIA GPUs that the running machine has; 0 for an image that is not booted.
    :ivar container: it is a running container: kernel, limits and clock belong to its host.
    :ivar booted: it is a running machine with its own kernel: neither a container nor an image that is not booted.
    :ivar secure_boot: it is a running machine whose firmware has Secure Boot turned on.
    """

    os: str
    hpc_image: bool
    versions: dict[str, str]
    present: tuple[str, ...]
    gpus: int
    container: bool
    booted: bool
    secure_boot: bool


def read_base(root: Root) -> BaseImage:
    """Return the facts of the base image."""
    release = read_os_release(root)
    text = root.text(COMPONENT_VERSIONS)
    return BaseImage(
        os=f"{release.get('ID', 'unknown')}-{release.get('VERSION_ID', 'unknown')}",
        hpc_image=text is not None,
        versions=_versions(text),
        present=tuple(sorted(name for name, paths in _SIGNS.items() if any(root.exists(path) for path in paths))),
        gpus=_gpus(root) if is_running(root) else 0,
        container=is_container(root),
        booted=is_running(root) and not is_container(root),
        secure_boot=is_running(root) and has_secure_boot(root),
    )


def is_running(root: Root) -> bool:
    """Whether systemd has booted this machine, so that it is not a mounted image."""
    return root.exists("/run/systemd/system")


def is_container(root: Root) -> bool:
    """Whether this is a running container, whose kernel, limits and clock belong to the host."""
    signs = ("/run/systemd/container", "/run/.containerenv", "/.dockerenv")
    return is_running(root) and any(root.exists(path) for path in signs)


def is_azure(root: Root) -> bool:
    """Whether this is a running Azure machine."""
    return is_running(root) and root.text("/sys/class/dmi/id/chassis_asset_tag") == AZURE_ASSET_TAG


def _gpus(root: Root) -> int:
    folder = "/sys/bus/pci/devices"
    return sum(
        root.text(f"{folder}/{name}/vendor") == _NVIDIA
        and (root.text(f"{folder}/{name}/class") or "").startswith(_DISPLAY)
        for name in root.entries(folder)
    )


def _versions(text: str | None) -> dict[str, str]:
    try:
        versions = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in versions.items()} if isinstance(versions, dict) else {}
