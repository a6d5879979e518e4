# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interface for tests and the command line: faults, latency, the request log, direct changes of state.

It is below ``/_simulator`` on Resource Manager's listener, which listens only on loopback.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

from flask import Blueprint, Response, jsonify, request

from simulator.arm.context import context
from simulator.backends import REACHES, BackendError
from simulator.faults import FaultError
from simulator.resources import Instance, now
from simulator.scenario import ScenarioError

blueprint = Blueprint("admin", __name__, url_prefix="/_simulator")

EDITS: dict[str, tuple[type[Any], ...]] = {
    "provisioning_state": (str,),
    "power_state": (str, type(None)),
    "tags": (dict,),
    "computer_name": (str,),
    "has_network_profile": (bool,),
    "has_interfaces": (bool,),
    "private_ipv4": (str, type(None)),
    "public_ipv4": (str, type(None)),
    "zone": (str, type(None)),
    "priority": (str, type(None)),
    "model_version": (int,),
    "user_data": (str,),
    "identity": (bool,),
    "boot_diagnostics": (bool,),
    "console_log": (str, type(None)),
    "hidden": (bool,),
}


@blueprint.get("/state")
def state() -> Response:
    """Every machine with its state and address, and the running operations."""
    return jsonify(
        {
            "instances": [describe(item) for item in context().model.instances()],
            "operations": [operation.what for operation in context().operations.running()],
        }
    )


@blueprint.post("/faults")
def add_fault() -> tuple[Response, int]:
    """Add a rule."""
    try:
        return jsonify({"id": context().faults.add(**(request.get_json(silent=True) or {}))}), 201
    except FaultError as error:
        return _refuse(str(error))


@blueprint.delete("/faults")
def clear_faults() -> tuple[str, int]:
    """Delete all rules."""
    context().faults.clear()
    return "", 204


@blueprint.get("/requests")
def show_requests() -> tuple[Response, int]:
    """The received requests. ?service=imds selects those of the metadata service, vault those of the key vaults."""
    log = context().requests.get(request.args.get("service", "arm"))
    if log is None:
        return _refuse(f"no such service; known are {', '.join(context().requests)}", 404)
    return jsonify(log.document()), 200


@blueprint.delete("/requests")
def clear_requests() -> tuple[str, int]:
    """Clear the request logs."""
    for log in context().requests.values():
        log.clear()
    return "", 204


@blueprint.post("/latency")
def set_latency() -> tuple[Response, int]:
    """Set the milliseconds to add to every request."""
    wanted = (request.get_json(silent=True) or {}).get("ms")
    if not isinstance(wanted, int | float) or wanted < 0:
        return _refuse(f"ms must be a number of milliseconds, not {wanted!r}")
    context().options.latency_ms = wanted
    return jsonify({"ms": wanted}), 200


@blueprint.patch("/limits")
def set_limits() -> tuple[Response, int]:
    """Change what the subscription may have. simulator.limits lists the keys."""
    try:
        context().model.limits.change(request.get_json(silent=True) or {})
    except ScenarioError as error:
        return _refuse(str(error))
    return jsonify({}), 200


@blueprint.patch("/instances/<path:azure_id>")
def edit_instance(azure_id: str) -> tuple[Response, int]:
    """Change what Resource Manager returns for a machine, without changing the machine."""
    instance = context().model.find_instance("/" + azure_id)
    if instance is None:
        return _refuse(f"no instance /{azure_id}", 404)
    changes = request.get_json(silent=True) or {}
    try:
        edit(instance, changes)
    except ValueError as error:
        return _refuse(str(error))
    return jsonify(describe(instance)), 200


@blueprint.post("/events/<path:azure_id>")
def add_event(azure_id: str) -> tuple[Response, int]:
    """Announce a scheduled event to a machine. An empty body withdraws all events."""
    instance = context().model.find_instance("/" + azure_id)
    if instance is None:
        return _refuse(f"no instance /{azure_id}", 404)
    announce(instance, request.get_json(silent=True) or {})
    return jsonify({"events": instance.events}), 201


@blueprint.post("/evict/<path:azure_id>")
def evict(azure_id: str) -> tuple[Response, int]:
    """Evict a machine, {"seconds": 30} after its announcement, or as soon as the machine has acknowledged it."""
    instance = context().model.find_instance("/" + azure_id)
    if instance is None:
        return _refuse(f"no instance /{azure_id}", 404)
    seconds = float((request.get_json(silent=True) or {}).get("seconds", 30))
    when = format_datetime(now() + timedelta(seconds=seconds), usegmt=True)
    announce(instance, {"EventType": "Preempt", "NotBefore": when})
    event_id = str(instance.events[-1]["EventId"])
    work = context().effects.evict(instance, event_id, seconds)
    context().operations.start(f"evict {instance.name}", instance.location, work)
    return jsonify({"event": event_id}), 201


@blueprint.post("/reach/<path:azure_id>")
def block_access(azure_id: str) -> tuple[Response, int]:
    """Block a machine's access to services, such as {"imds": "blackhole", "vault": "refused"}. "normal" allows it."""
    instance = context().model.find_instance("/" + azure_id)
    if instance is None:
        return _refuse(f"no instance /{azure_id}", 404)
    wanted = request.get_json(silent=True) or {}
    if not wanted or set(wanted) - {"imds", "vault"} or not all(how in REACHES for how in wanted.values()):
        return _refuse(f"give imds, vault or both one of {', '.join(REACHES)}")
    try:
        for service, how in wanted.items():
            context().effects.reach(instance, service, how)
    except BackendError as error:
        return _refuse(str(error), 409)
    return jsonify(wanted), 200


@blueprint.put("/secrets/<vault>/<name>")
def put_secret(vault: str, name: str) -> tuple[Response, int]:
    """Add a version of a secret with a value (or "generated"), or disable the newest one with {"enabled": false}."""
    found = context().model.vaults.get(vault.lower())
    wanted = request.get_json(silent=True) or {}
    if found is None:
        return _refuse(f"no key vault {vault}", 404)
    if isinstance(wanted.get("value"), str):
        found.put(name, wanted["value"])
    elif isinstance(wanted.get("enabled"), bool) and found.get(name):
        found.enable(name, wanted["enabled"])
    else:
        return _refuse("give a value, or enabled for an existing secret")
    return jsonify({"name": name}), 200


@blueprint.delete("/secrets/<vault>/<name>")
def remove_secret(vault: str, name: str) -> tuple[Response, int]:
    """Delete a secret."""
    found = context().model.vaults.get(vault.lower())
    if found is None or not found.remove(name):
        return _refuse(f"no secret {name} in a key vault {vault}", 404)
    return jsonify({"name": name}), 200


def edit(instance: Instance, changes: dict[str, Any]) -> None:
    """Change a machine's state directly."""
    for key, value in changes.items():
        if key not in EDITS:
            raise ValueError(f"unknown key {key!r}; known are {', '.join(sorted(EDITS))}")
        if not isinstance(value, EDITS[key]):
            raise ValueError(f"{key} must not be {value!r}")
    for key, value in changes.items():
        # Lists do not show a machine until its event is set. Nobody sets this one: {"hidden": false} removes it.
        setattr(instance, key, (threading.Event() if value else None) if key == "hidden" else value)
    instance.touch()


def announce(instance: Instance, event: dict[str, Any]) -> None:
    """Add a scheduled event to a machine's document. An empty event withdraws all."""
    if event:
        number = instance.events_incarnation
        instance.events = [
            *instance.events,
            {
                "EventId": f"{instance.vm_id[:-4]}{number:04X}",
                "EventType": "Reboot",
                "ResourceType": "VirtualMachine",
                "Resources": [instance.name],
                "EventStatus": "Scheduled",
                "NotBefore": "",
                "Description": "",
                "EventSource": "Platform",
                "DurationInSeconds": -1,
                **event,
            },
        ]
    else:
        instance.events = []
    instance.events_incarnation += 1


def describe(instance: Instance) -> dict[str, Any]:
    """The main properties of a machine."""
    return {
        "id": instance.id,
        "name": instance.name,
        "vm_id": instance.vm_id,
        "computer_name": instance.computer_name,
        "private_ipv4": instance.private_ipv4,
        "public_ipv4": instance.public_ipv4,
        "provisioning_state": instance.provisioning_state,
        "power_state": instance.power_state,
    }


def _refuse(message: str, status: int = 400) -> tuple[Response, int]:
    return jsonify({"error": message}), status
