# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual machine that is captured as an image version, and the image definition that it must fit."""

from __future__ import annotations

from dataclasses import dataclass

from .clients import Clients
from .errors import Asking, InventoryError, explain
from .facts import is_ephemeral
from .galleries import VersionName, folded, text_of
from .images import plan_words
from .instance_operations import Begin, finish
from .targets import Target

_STANDARD = "Standard"
"""The security type of machines and image definitions that state none."""


@dataclass(frozen=True)
class Machine:
    """The virtual machine to capture.

    :ivar generation: its Hyper-V generation, such as V2; empty if Azure did not return it.
    :ivar security: its security type, such as TrustedLaunch or Standard.
    :ivar location: its region, folded.
    :ivar plan: the marketplace plan of its image as ``publisher:product:name``; empty if it has none.
    :ivar ephemeral: whether its system disk is ephemeral.
    """

    power: str
    generalised: bool
    generation: str
    security: str
    location: str
    plan: str
    ephemeral: bool


def read_machine(clients: Clients, target: Target) -> Machine:
    """Return the state of the virtual machine to capture.

    :raises InventoryError: a request failed.
    """
    calls = clients.compute(target.subscription).virtual_machines
    asking = Asking(f"read {target.azure_id}", "Microsoft.Compute/virtualMachines/read")
    try:
        found = calls.get(target.group, target.name, expand="instanceView")
    except Exception as error:
        raise InventoryError(explain(error, asking)) from None
    view, security = found.instance_view, found.security_profile
    codes = [text_of(status.code) for status in (view.statuses if view else None) or []]
    power = [code.partition("/")[2].lower() for code in codes if code.startswith("PowerState/")]
    return Machine(
        power=power[0] if power else "",
        generalised=any(code.lower() == "osstate/generalized" for code in codes),
        generation=text_of(view.hyper_v_generation if view else None),
        security=text_of(security.security_type if security else None) or _STANDARD,
        location=folded(text_of(found.location)),
        plan=plan_words(found.plan),
        ephemeral=bool(is_ephemeral(found.storage_profile.os_disk if found.storage_profile else None)),
    )


def check_definition(clients: Clients, name: VersionName, machine: Machine) -> str:
    """Check that the machine fits the image definition, and return the definition's region.

    :raises InventoryError: the definition does not exist, or does not fit. Azure would refuse the version after the
        machine has been generalised, or machines of the image.
    """
    calls = clients.compute(name.subscription).gallery_images
    asking = Asking(
        f"read the image definition {name.image} of the gallery {name.gallery}",
        "Microsoft.Compute/galleries/images/read",
    )
    try:
        found = calls.get(name.group, name.gallery, name.image)
    except Exception as error:
        raise InventoryError(explain(error, asking)) from None
    if machine.ephemeral:
        # azure-compute-docs, "Troubleshoot images in an Azure Compute Gallery".
        raise InventoryError(
            "Azure cannot capture a machine with an ephemeral system disk. Nothing was done. Bake on a machine whose "
            "system disk is a managed disk."
        )
    state, generation = text_of(found.os_state), text_of(found.hyper_v_generation) or "V1"
    problems = [f"its osState is {state}, not Generalized"] if state != "Generalized" else []
    if machine.generation and machine.generation != generation:
        problems.append(f"its generation is {generation}, but the machine's is {machine.generation}")
    location, plan = folded(text_of(found.location)), plan_words(found.purchase_plan)
    if machine.location != location:
        problems.append(f"it is in {location}, but the machine is in {machine.location}")
    if machine.plan.lower() != plan.lower():
        problems.append(f"it has {_plan_shown(plan)}, but the machine has {_plan_shown(machine.plan)}")
    types = [text_of(feature.value) for feature in found.features or [] if text_of(feature.name) == "SecurityType"]
    security = types[0] if types else _STANDARD
    # TrustedLaunchSupported and the like are for other sources than machines: hashicorp/packer-plugin-azure#304.
    if security.lower() != machine.security.lower():
        problems.append(f"its security type is {security}, but the machine's is {machine.security}")
    if problems:
        raise InventoryError(
            f"The image definition {name.image} does not fit the machine: {'; '.join(problems)}. Nothing was done. "
            f"Use or create another image definition{_definition_options(machine)}."
        )
    return location


def _plan_shown(plan: str) -> str:
    return f"the marketplace plan {plan}" if plan else "no marketplace plan"


def _definition_options(machine: Machine) -> str:
    """Return the options of ``az sig image-definition create`` that depend on the machine."""
    words = [f"--location {machine.location}", f"--features SecurityType={machine.security}"]
    if machine.plan:
        publisher, product, plan = machine.plan.split(":")
        words.append(f"--plan-publisher {publisher} --plan-product {product} --plan-name {plan}")
    return f": az sig image-definition create {' '.join(words)} ..."


def stop_and_generalise(clients: Clients, target: Target, machine: Machine) -> None:
    """Deallocate the machine and mark it as generalised. It can only be captured afterwards.

    :raises InventoryError: a request failed.
    """
    calls = clients.compute(target.subscription).virtual_machines
    if machine.power != "deallocated":
        asking = Asking(f"deallocate {target.azure_id}", "Microsoft.Compute/virtualMachines/deallocate/action")
        finish([Begin(asking, lambda: calls.begin_deallocate(target.group, target.name))])
    if not machine.generalised:
        asking = Asking(f"generalise {target.azure_id}", "Microsoft.Compute/virtualMachines/generalize/action")
        try:
            calls.generalize(target.group, target.name)
        except Exception as error:
            raise InventoryError(explain(error, asking)) from None
