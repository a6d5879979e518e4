# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""InfiniBand ports: the expected number is active, at full rate, with addresses and keys; and GPUDirect RDMA."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...machine.kernel import is_loaded
from ...machine.pci import PciFacts, read_pci
from ...machine.rdma import INFINIBAND, Port, read_ports
from ...machine.root import Root
from ...sku.types import VmSize
from ..applies import has_amd_gpus, where_expected
from ..check import (
    BOOT,
    DEEP,
    FAIL,
    OBSERVE,
    PERIODIC,
    PROLOG,
    REBOOT,
    REPLACE,
    TIERS,
    UNKNOWN,
    WARN,
    Answer,
    Check,
    Context,
    Finding,
    Reading,
)
from ..settings import source_in_words

# InfiniBand ports: the expected number is active.

_MANAGED = ("INIT", "ARMED")
_DOWN = "See 'ibstat' and 'journalctl -k -b'; redeploy the VM if this persists"
_NO_DEVICE = "Load the adapters' driver (mlx5_ib; OFED: systemctl status openibd), and see 'journalctl -k -b'"


def _measure_ports(context: Context) -> Answer:
    size = context.known_size
    count = size.hca_count or 0
    ports = read_ports(context.root)
    working = sum(port.works for port in ports)
    return Answer(
        good=f"{working} InfiniBand ports are active",
        readings=(Reading("ib_ports_active", working, limit=count),),
        findings=tuple(judge_ports(size, ports, read_pci(context.root))),
        limit=f"{count} active ports ({size.name})",
    )


def judge_ports(size: VmSize, ports: Sequence[Port], devices: Sequence[PciFacts]) -> list[Finding]:
    """Return findings about the InfiniBand ports. Ethernet ports, as of accelerated networking, are ignored."""
    ports = [port for port in ports if port.link_layer == INFINIBAND]
    if not devices and not ports:
        return [Finding(UNKNOWN, "sysfs shows neither PCI nor RDMA devices", hint="Run it as root")]
    findings = list(_each(size, ports, [device for device in devices if device.is_hca]))
    working, count = sum(port.works for port in ports), size.hca_count or 0
    if not findings and working < count:
        # The addresses are not known, so the missing devices cannot be named.
        words = f"{working} of {count} InfiniBand ports are active, and there are no others"
        findings.append(Finding(FAIL, words, hint=_DOWN))
    return findings


def _each(size: VmSize, ports: Sequence[Port], adapters: Sequence[PciFacts]) -> Iterator[Finding]:
    expected = [hca.busid for hca in size.hcas or ()]
    present = {device.busid for device in adapters}
    # If the machine has other addresses than the known ones, it is not possible to find out which one is missing.
    for busid in expected if present <= set(expected) else ():
        if busid not in present:
            words = f"InfiniBand adapter {busid} is not on the PCI bus"
            yield Finding(FAIL, words, busid, "Redeploy the VM: a missing adapter cannot be repaired from inside it")
    driven = {port.busid for port in ports}
    for busid in sorted(present - driven):
        yield Finding(FAIL, f"InfiniBand adapter {busid} has no RDMA device", busid, _NO_DEVICE, REBOOT)
    for port in ports:
        if not port.works:
            words = f"InfiniBand port {port.label} ({port.busid or 'without address'}) is {port.condition}"
            if port.state in _MANAGED:
                yield Finding(FAIL, words, port.device, f"It waits for the subnet manager: {_DOWN}", OBSERVE)
            else:
                yield Finding(FAIL, words, port.device, _DOWN)


IB_PORTS = Check(
    name="ib_ports",
    title="InfiniBand ports",
    explain=(
        "According to sysfs, each InfiniBand port is in state ACTIVE and its link is up, and there are as many ports "
        "as the facts of the VM size state (azurehpc-health-checks, azhpc-images). Missing adapters are listed by PCI "
        "address."
    ),
    tiers=TIERS,
    measure=_measure_ports,
    applies=where_expected("hca_count", "InfiniBand"),
    action=REPLACE,
    fault="NHC2004",
    blocks_job=True,
    blocks_boot=True,
)


# InfiniBand ports: each runs at its full rate.


def _measure_rate(context: Context) -> Answer:
    size = context.known_size
    expected_gbps = size.ib_rate_gbps or 0
    ports = [port for port in read_ports(context.root) if port.works]
    if not ports:
        hint = "See the check ib_ports for the cause"
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port is active, so none has a rate", hint=hint),))
    rates = [port.rate_gbps for port in ports if port.rate_gbps is not None]
    return Answer(
        good=f"{len(ports)} InfiniBand ports run at {min(rates, default=0):g} Gb/s",
        readings=tuple(
            Reading("ib_rate", port.rate_gbps, "Gb/s", port.device, expected_gbps)
            for port in ports
            if port.rate_gbps is not None
        ),
        findings=tuple(judge_rates(size, ports)),
        limit=f"at least {expected_gbps} Gb/s ({source_in_words(size.sources['ib_rate_gbps'])})",
    )


def judge_rates(size: VmSize, ports: Sequence[Port]) -> Iterator[Finding]:
    """Yield findings about the rates of the active InfiniBand ports."""
    expected_gbps = size.ib_rate_gbps or 0
    for port in (port for port in ports if expected_gbps and port.works):
        if port.rate_gbps is None:
            yield Finding(UNKNOWN, f"{port.label} does not show its rate", port.device)
        elif port.rate_gbps < expected_gbps:
            words = f"{port.label} ({port.busid}) runs at {port.rate_gbps:g} Gb/s instead of {expected_gbps}"
            hint = "The link has lost lanes: see 'mlxlink'; redeploy the VM if this persists"
            yield Finding(FAIL, words, port.device, hint)


IB_RATE = Check(
    name="ib_rate",
    title="Rate of the InfiniBand ports",
    explain=(
        "Each active InfiniBand port runs at the rate expected of the VM size (azurehpc-health-checks, check_hw_ib). A "
        "link that has lost lanes stays active, but runs at a lower rate."
    ),
    tiers=(PROLOG, PERIODIC, BOOT, DEEP),
    measure=_measure_rate,
    applies=where_expected("ib_rate_gbps", "InfiniBand"),
    action=REPLACE,
    fault="NHC2004",
)


# InfiniBand ports: the subnet manager has given each port a unique address.

_HINT = "The subnet manager assigns addresses: restart the machine, redeploy the VM if that does not help"


def _measure_addresses(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.works]
    if not ports:
        hint = "See the check ib_ports for the cause"
        return Answer(findings=(Finding(UNKNOWN, "no InfiniBand port is active, so none has an address", hint=hint),))
    readings, findings = [], []
    owners: dict[str, str] = {}
    for port in ports:
        folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
        lid, gid = context.root.number(f"{folder}/lid"), context.root.text(f"{folder}/gids/0")
        if lid is None or not gid:
            findings.append(Finding(UNKNOWN, f"{port.label} does not show its LID and its GID", port.device))
            continue
        # The second half of a GID is the port's GUID.
        guid = "".join(gid.split(":")[4:])
        readings.append(Reading("ib_lid", lid, device=port.device))
        if lid == 0:
            findings.append(Finding(FAIL, f"{port.label} is active, but has no LID", port.device, _HINT))
        if not guid.strip("0"):
            findings.append(Finding(FAIL, f"{port.label} is active, but has no GID: {gid}", port.device, _HINT))
        elif guid in owners:
            words = f"{port.label} has the same GID as {owners[guid]}: {gid}"
            findings.append(Finding(FAIL, words, port.device, _HINT))
        owners.setdefault(guid, port.label)
    return Answer(
        good=f"{len(readings)} InfiniBand ports have a LID and a unique GID",
        readings=tuple(readings),
        findings=tuple(findings),
        limit="a LID that is not 0, and a GID that no other port has",
    )


IB_ADDRESSES = Check(
    name="ib_addresses",
    title="LID and GID of the InfiniBand ports",
    explain=(
        "Each active InfiniBand port has a LID that is not 0, and a GID that no other port of the node has. Other "
        "nodes need the GID and the LID to reach the port (InfiniBand architecture: LID 0 is reserved)."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_addresses,
    applies=where_expected("hca_count", "InfiniBand"),
    action=OBSERVE,
)


# InfiniBand ports: all are in the partition of their scale set.

_FULL, _DEFAULT = 0x8000, 0x7FFF
"""The bit of a full member of a partition, and the default partition, to which all ports belong."""


def _measure_pkeys(context: Context) -> Answer:
    ports = [port for port in read_ports(context.root) if port.link_layer == INFINIBAND]
    if not ports:
        return Answer(findings=(Finding(UNKNOWN, "there is no InfiniBand port"),))
    readings, findings = [], []
    keys: dict[str, list[int]] = {}
    for port in ports:
        table = _read(context.root, port)
        if not table:
            findings.append(Finding(UNKNOWN, f"{port.label} does not show its partition keys", port.device))
            continue
        assigned = [key for key in table if key & _DEFAULT != _DEFAULT]
        keys[port.label] = assigned
        listed = " ".join(f"0x{key:04x}" for key in assigned) or "none"
        readings.append(Reading("ib_partition_key", listed, device=port.device))
        if len(assigned) != 1:
            words = f"{port.label} has {_counted(assigned)} besides the default key, but should have one: {listed}"
            findings.append(Finding(FAIL, words, port.device, "Redeploy the VM: the host assigns the keys"))
        elif not assigned[0] & _FULL:
            words = f"{port.label} is a limited member of its partition ({listed}), and can only reach full members"
            findings.append(Finding(FAIL, words, port.device, "Redeploy the VM: the host assigns the keys"))
    findings += _odd_ports(keys)
    several = sorted({key for assigned in keys.values() for key in assigned})
    return Answer(
        good=f"{len(keys)} InfiniBand ports are in partition {' '.join(f'0x{key:04x}' for key in several)}",
        readings=tuple(readings),
        findings=tuple(findings),
        limit="the default key and one more, the same on all ports",
    )


def _read(root: Root, port: Port) -> list[int]:
    folder = f"/sys/class/infiniband/{port.device}/ports/{port.number}/pkeys"
    table = (root.number(path) for _index, path in root.numbered(folder, ""))
    # The table has about a hundred entries, and most are empty.
    return [key for key in table if key and key & _DEFAULT]


def _odd_ports(keys: dict[str, list[int]]) -> list[Finding]:
    """Return a finding for the ports whose key differs from the most common key."""
    single = {label: assigned[0] & _DEFAULT for label, assigned in keys.items() if len(assigned) == 1}
    values = list(single.values())
    if len(set(values)) < 2:
        return []
    usual = max(values, key=values.count)
    odd = ", ".join(f"{label} 0x{key:04x}" for label, key in single.items() if key != usual)
    words = f"InfiniBand ports are in different partitions: {odd}, the others 0x{usual:04x}"
    return [Finding(FAIL, words, hint="Redeploy the VM: all of its ports must be in the scale set's partition")]


def _counted(assigned: list[int]) -> str:
    return "no partition key" if not assigned else f"{len(assigned)} partition keys"


IB_PKEYS = Check(
    name="ib_pkeys",
    title="Partition keys of the InfiniBand ports",
    explain=(
        "Azure gives the ports of a scale set one partition key besides the default key (0x7fff or 0xffff). Each port "
        "of the node has exactly one such key, as a full member, and all ports have the same key. A port without this "
        "key cannot reach other nodes (learn.microsoft.com/azure/virtual-machines/setup-mpi, partition keys)."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_pkeys,
    applies=where_expected("hca_count", "InfiniBand"),
    action=REPLACE,
)


# GPUDirect RDMA: the adapters can access the GPUs' memory.

_PEERMEM = ("nvidia_peermem", "nv_peer_mem")
_DRIVER = "/proc/driver/nvidia/version"
_OPEN = "Open Kernel Module"


def _applies(size: VmSize | None) -> str:
    if size is None:
        return ""
    if not size.hca_count:
        return f"{size.name} has no InfiniBand"
    if has_amd_gpus(size):
        return f"the driver of {size.gpu_model} needs no extra module"
    return "" if size.gpu_count else f"{size.name} has no GPU"


def _measure_peer_memory(context: Context) -> Answer:
    root = context.root
    loaded = next((name for name in _PEERMEM if is_loaded(root, name)), "")
    if loaded:
        return Answer(f"{loaded} is loaded", readings=(Reading("gpudirect_rdma", loaded),))
    driver = root.text(_DRIVER)
    if driver is None:
        words = "NVIDIA's driver is not loaded, so it is not known whether adapters can access the GPUs' memory"
        return Answer(findings=(Finding(UNKNOWN, words, hint="See the check gpu_count for the cause"),))
    if _OPEN in driver and is_loaded(root, "ib_uverbs"):
        return Answer(
            "adapters access the GPUs' memory through DMA-BUF", readings=(Reading("gpudirect_rdma", "dmabuf"),)
        )
    words = "nvidia_peermem is not loaded, so InfiniBand uses the host's memory"
    hint = "Run 'modprobe nvidia_peermem'; NVIDIA's driver builds it only if the adapters' drivers are installed first"
    return Answer(readings=(Reading("gpudirect_rdma", "no"),), findings=(Finding(WARN, words, hint=hint),))


PEER_MEMORY = Check(
    name="peer_memory",
    title="GPUDirect RDMA",
    explain=(
        "InfiniBand adapters can access the GPUs' memory: nvidia_peermem is loaded, or the driver has the open kernel "
        "modules, which provide DMA-BUF (NVIDIA, GPUDirect RDMA documentation). The check only warns: without this "
        "access, jobs run, but more slowly."
    ),
    tiers=(PERIODIC, BOOT, DEEP),
    measure=_measure_peer_memory,
    applies=_applies,
    action=OBSERVE,
)
