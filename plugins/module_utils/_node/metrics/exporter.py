# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""The node exporter's command line: it listens on the private address only, and publishes nothing that users name.

The address is that of the route to the controller, so an image works on every machine without a playbook.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ..machine.config import ConfigError
from ..slurm.node_queries import PORT
from .settings import Settings

COLLECTORS = (
    *("diskstats", "filesystem", "infiniband", "loadavg", "mdadm", "meminfo", "netdev", "nfs", "pressure"),
    *("stat", "textfile", "time", "timex", "uname", "vmstat"),
)
"""Not ``cpu``, which has eight series for each of 96 CPUs; ``pressure`` and ``loadavg`` show the same."""
# Users choose the names of mount points and of network devices in their namespaces and FUSE file systems, and such a
# file system may hang.
_EXCLUDED_TYPES = "^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fuse.*|fusectl|hugetlbfs|mqueue"
_EXCLUDED_TYPES += "|nsfs|overlay|proc|procfs|pstore|ramfs|rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tmpfs|tracefs"
_EXCLUDED_TYPES += "|beegfs|lustre|nfs4?)$"
_EXCLUDED_DEVICES = "^(lo|veth.*|docker.*|br-.*|cali.*)$"
_EXCLUDED_DISKS = "^(loop|ram|sr|fd)\\d+$"


def own_address(controllers: Sequence[str]) -> str:
    """Return this machine's address on the route to the first controller that has one. Nothing is sent.

    :raises ConfigError: there is no route to a controller.
    """
    for controller in controllers:
        host = controller.strip("[]") if controller.count(":") != 1 else controller.partition(":")[0]
        try:
            family, kind, protocol, _name, where = socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as connection:
                connection.connect(where)
                return str(connection.getsockname()[0])
        except OSError:
            continue
    raise ConfigError(
        f"there is no route to a controller ({', '.join(controllers) or 'none is known'}): check the network, and "
        "hpcai_controllers in the inventory"
    )


def command(settings: Settings, address: str) -> list[str]:
    """Return the node exporter's command line. Pure.

    :param address: where it listens.
    """
    where = f"[{address}]" if ":" in address else address
    # CHANGELOG of node exporter 1.4.0, #2417.
    disks = "ignored-devices" if settings.exporter.old_options else "device-exclude"
    return [
        settings.exporter.program,
        f"--web.listen-address={where}:{settings.exporter.port}",
        "--web.disable-exporter-metrics",
        "--collector.disable-defaults",
        *(f"--collector.{name}" for name in COLLECTORS),
        f"--collector.textfile.directory={settings.folder}",
        f"--collector.filesystem.fs-types-exclude={_EXCLUDED_TYPES}",
        f"--collector.netdev.device-exclude={_EXCLUDED_DEVICES}",
        f"--collector.diskstats.{disks}={_EXCLUDED_DISKS}",
    ]
