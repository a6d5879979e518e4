# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""How the node exporter starts: it listens on the private address only, and publishes nothing that users name.

The address is that of the route to the controller, so an image works on every machine without a playbook. Every user
can listen at such a port while it is free, and would then publish the metrics of this machine. So systemd keeps the
listening socket while the exporter restarts (systemd.io/FILE_DESCRIPTOR_STORE).
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import select
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

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
_FIRST_HANDLE = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""
_KEPT = "FDNAME=exporter"
_BACKLOG = 128
_SYSTEMD_S = 5.0
"""How long systemd may take to close a socket."""
# Addresses for documentation (RFC 5737, RFC 3849), which only the default route reaches.
_ELSEWHERE = ((socket.AF_INET, ("192.0.2.1", PORT)), (socket.AF_INET6, ("2001:db8::1", PORT)))


def own_address(controllers: Sequence[str]) -> str:
    """Return this machine's address on the route to the first controller that has one. Nothing is sent.

    Debian's /etc/hosts has the machine's own name with 127.0.1.1, so on a controller the route to this name is the
    loopback. Then another controller's route decides, else the default route, else it is the loopback.

    :raises ConfigError: there is no route to a controller.
    """
    loopback = ""
    for controller in controllers:
        host = controller.strip("[]") if controller.count(":") != 1 else controller.partition(":")[0]
        try:
            answers = socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)
        except OSError:
            continue
        for family, _kind, _protocol, _name, where in answers:
            address = _address_to(family, where)
            if address and (not _is_loopback(address) or host == "localhost" or _is_loopback(host)):
                return address
            loopback = loopback or address
    if loopback:
        return next(filter(None, (_address_to(family, where) for family, where in _ELSEWHERE)), loopback)
    raise ConfigError(
        f"there is no route to a controller ({', '.join(controllers) or 'none is known'}): check the network, and "
        "hpcai_controllers in the inventory"
    )


def _address_to(family: int, where: Any) -> str:
    """Return this machine's address on the route to a socket address; empty without a route."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as connection:
            connection.connect(where)
            return str(connection.getsockname()[0])
    except OSError:
        return ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def command(settings: Settings, address: str) -> list[str]:
    """Return the node exporter's command line. Pure.

    :param address: where it listens, if it cannot get a socket.
    """
    where = f"[{address}]" if ":" in address else address
    old = settings.exporter.old_options
    # CHANGELOG of node exporter 1.4.0, #2417.
    disks = "ignored-devices" if old else "device-exclude"
    return [
        settings.exporter.program,
        # CHANGELOG of 1.5.0, #2393.
        f"--web.listen-address={where}:{settings.exporter.port}" if old else "--web.systemd-socket",
        "--web.disable-exporter-metrics",
        "--collector.disable-defaults",
        *(f"--collector.{name}" for name in COLLECTORS),
        f"--collector.textfile.directory={settings.folder}",
        f"--collector.filesystem.fs-types-exclude={_EXCLUDED_TYPES}",
        f"--collector.netdev.device-exclude={_EXCLUDED_DEVICES}",
        f"--collector.diskstats.{disks}={_EXCLUDED_DISKS}",
    ]


def start(settings: Settings, address: str) -> NoReturn:
    """Replace this process with the node exporter.

    :param address: where it listens.
    :raises ConfigError: another program listens there.
    """
    words, environment = command(settings, address), dict(os.environ)
    if settings.exporter.old_options:
        # A newer exporter ran before.
        kept = _passed(environment)
        if kept:
            _forget(kept, environment)
    else:
        handle = _listener(address, settings.exporter.port, environment).detach()
        if handle != _FIRST_HANDLE:
            os.dup2(handle, _FIRST_HANDLE)
        os.set_inheritable(_FIRST_HANDLE, True)
        environment.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
        environment.pop("LISTEN_FDNAMES", None)
    os.execve(words[0], words, environment)


def _passed(environment: Mapping[str, str]) -> socket.socket | None:
    """Return the socket that systemd has kept; None if there is none."""
    is_passed = environment.get("LISTEN_PID") == str(os.getpid()) and environment.get("LISTEN_FDS") == "1"
    return socket.socket(fileno=_FIRST_HANDLE) if is_passed else None


def _forget(kept: socket.socket, environment: Mapping[str, str]) -> None:
    """Close the socket that systemd has kept, and wait until systemd has closed it too."""
    kept.close()
    _notify(environment, f"FDSTOREREMOVE=1\n{_KEPT}")
    # systemd closes its copy of this end when it has processed the message before (sd_notify_barrier(3)).
    waits, end = os.pipe()
    _notify(environment, "BARRIER=1", end)
    os.close(end)
    select.select([waits], [], [], _SYSTEMD_S)
    os.close(waits)


def _listener(address: str, port: int, environment: Mapping[str, str]) -> socket.socket:
    """Return the socket that systemd has kept, else a new one, which systemd keeps from now on."""
    family, _kind, _protocol, _name, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    kept = _passed(environment)
    if kept and kept.getsockname() == where:
        return kept
    if kept:
        # The settings have changed.
        _forget(kept, environment)
    made = socket.socket(family, socket.SOCK_STREAM)
    # Connections of a former exporter may not have ended. On Linux, two programs still cannot listen at one port.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(where)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno != errno.EADDRINUSE:
            raise ConfigError(f"cannot listen at {address}, port {port}: {error.strerror}") from error
        raise ConfigError(
            f"another program listens at {address}, port {port}, and Prometheus takes its answers for those of this "
            f"machine: 'ss -lptn sport = :{port}' shows the program. Stop it, or set monitoring_exporter_port"
        ) from error
    _notify(environment, f"FDSTORE=1\n{_KEPT}", made.fileno())
    return made


def _notify(environment: Mapping[str, str], message: str, *handles: int) -> None:
    """Send systemd a message (sd_notify(3)). If that fails, the port is free while the exporter restarts."""
    where = environment.get("NOTIFY_SOCKET", "")
    if where:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.connect(f"\0{where[1:]}" if where.startswith("@") else where)
            socket.send_fds(connection, [message.encode()], handles)
