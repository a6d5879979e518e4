# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of Azure scale sets as Ansible hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: azure_vmss
author:
  - hpcai.azure contributors (@hpcai)
short_description: Instances of Azure scale sets, and stand-alone VMs
version_added: 0.1.0
description:
  - Lists the instances of Uniform and Flexible virtual machine scale sets, and on request stand-alone virtual machines,
    as hosts that all have the same set of variables.
  - Uses list calls only. The number of requests depends on the number of scale sets and result pages. It does not grow
    with each instance.
  - First collects and checks all hosts. By default, hosts are published only if there was no error (see O(on_error)).
    One line on standard error reports how many hosts were found, how many were left out, and why, so hosts never
    disappear silently.
  - The name of the source file must end with C(azure_vmss.yml) or C(azure_vmss.yaml).
notes:
  - If a source fails, Ansible only warns and continues with the other sources. To prevent this, set
    C(any_unparsed_is_failed = true) in the section C([inventory]) of C(ansible.cfg). Ansible then ends with the message
    of this plugin, and does not try its plugins C(yaml) and C(ini) on the file. The playbook C(hpcai.azure.site) also
    checks the variable RV(ignore:azure_inventory), and fails if this variable lacks a source.
  - The identity needs the following actions. The built-in role C(Reader) contains all of them.
  - For scale sets, C(Microsoft.Compute/virtualMachineScaleSets/read),
    C(Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read),
    C(Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read) and
    C(Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read).
  - For Flexible scale sets and stand-alone VMs, also C(Microsoft.Compute/virtualMachines/read),
    C(Microsoft.Compute/virtualMachines/instanceView/read) and C(Microsoft.Network/networkInterfaces/read).
  - For public addresses, C(Microsoft.Compute/virtualMachineScaleSets/publicIPAddresses/read) and
    C(Microsoft.Network/publicIPAddresses/read). For O(list_virtual_networks),
    C(Microsoft.Network/virtualNetworks/read).
  - "Variables of each host, V(null) if Azure returns no value: C(azure_id), C(azure_vm_id), C(azure_name),
    C(azure_vmss), C(azure_vmss_id), C(azure_instance_id) (Uniform only), C(azure_orchestration_mode), C(azure_vm_size),
    C(azure_location), C(azure_zone), C(azure_fault_domain), C(azure_placement_group) (Uniform only),
    C(azure_computer_name), C(azure_admin_username), C(azure_os_type), C(azure_ephemeral_os_disk) (whether a
    redeployment makes a new system disk from the image), C(azure_power_state),
    C(azure_provisioning_state), C(azure_health_state), C(azure_latest_model) (Uniform only; whether the instance has
    the newest model of its scale set), C(azure_priority), C(azure_image), C(azure_tags) (including tags of the scale
    set that the instance lacks), C(azure_roles) (the roles in the tag O(role_tag)), C(azure_ready),
    C(azure_private_ipv4), C(azure_public_ipv4), C(azure_subnet), C(azure_virtual_network),
    C(azure_accelerated_networking), C(azure_resource_group), C(azure_subscription_id); and C(ansible_host)."
  - "Groups: C(azure_hosts) with all hosts, C(azure_vmss_SET), C(azure_size_SIZE), C(azure_location_LOCATION),
    C(azure_zone_LOCATION_ZONE), C(azure_placement_group_ID), C(azure_power_STATE), C(azure_provisioning_STATE),
    C(azure_model_outdated), C(azure_role_ROLE) and C(hpcai_ROLE) for each role of O(role_tag). All names are in lower
    case, with C(_) for characters that group names must not contain. If two scale sets have the same name, the name of
    the resource group is appended to C(azure_vmss_SET). If that is the same too, the subscription id is appended as
    well. C(azure_model_outdated) contains the instances whose C(azure_latest_model) is false."
  - C(hpcai_ROLE) contains only instances that are running, provisioned and have an address (C(azure_ready)). An
    instance that is updating, failed, deallocated or without an address is still in all its other groups, including
    C(azure_role_ROLE). It therefore remains a node of its cluster.
  - "Group variables: The group of a scale set has C(azure_scale_set), with C(vm_size) of the set's model, C(capacity),
    C(found) (the number of listed instances), C(single_placement_group) and C(accelerated_networking). The group of a
    known VM size has C(azure_sku), with those facts of the size that are a number or a text, such as C(vcpus),
    C(gpu_count) and C(ib_rate_gbps). P(hpcai.azure.vm_size#filter) gives all facts. The group C(all) has
    C(azure_inventory). For each source, C(azure_inventory) contains what the source found, at which time, and whether
    the answer is complete. It also contains the resource groups and scale sets that the source names. These variables
    are short, because Ansible copies them to each host when it prints an inventory."
  - Values from Azure (tags, names) are never evaluated as templates, neither in variables nor in the names of groups.
  - An answer from the cache needs neither the network nor Azure's SDK. The cache contains Azure's answers, so you can
    change O(query), O(hostnames), O(connect_with), O(compose) and similar options without new requests. The cache
    contains no secrets.
  - Each combination of selected resources and identity has its own cache entry. An entry expires after O(cache_timeout)
    seconds, or never if O(cache_timeout=0).
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
  - azure-mgmt-network >= 28.0.0
  - jmespath, for O(query)
  - netaddr, for O(connect_subnet)
extends_documentation_fragment:
  - hpcai.azure.azure_connection
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as a source of this plugin.
    type: str
    required: true
    choices: [hpcai.azure.azure_vmss]
  subscription_ids:
    description:
      - Ids of the subscriptions to search. The source fails if no subscription is given.
    type: list
    elements: str
    env:
      - name: HPCAI_AZURE_SUBSCRIPTION_IDS
      - name: AZURE_SUBSCRIPTION_ID
  resource_groups:
    description:
      - List only scale sets and stand-alone VMs of these resource groups. By default, those of all resource groups are
        listed.
      - Set this option, or list all scale sets in O(scale_sets) in the form V(GROUP/NAME). Otherwise every machine of
        the subscription can get a role by its tags, and the playbooks of this collection refuse the inventory.
    type: list
    elements: str
    default: []
  scale_sets:
    description:
      - List only scale sets with these names. V(*), V(?) and V([...]) work as in file names. Case is ignored.
      - "V(GROUP/NAME) is a scale set of one resource group. This form tells the playbooks that you trust the machines
        of this scale set. Only C(NAME) may contain wildcards."
      - Instances of other scale sets are not requested from Azure. This option does not filter stand-alone VMs.
    type: list
    elements: str
    default: []
  locations:
    description:
      - List only scale sets and stand-alone VMs in these locations.
    type: list
    elements: str
    default: []
  tags:
    description:
      - List only scale sets and machines that have all of these tags with the given values. If a value is a list, one
        of the list's items must match. V(null) matches any value.
      - If a scale set's own tags do not match, its instances are not requested from Azure. An instance inherits each
        tag of its scale set, unless the instance has a tag of the same name.
    type: dict
    default: {}
  include_vms:
    description:
      - Which stand-alone VMs to list. O(resource_groups), O(locations), O(tags) and O(query) also apply to these VMs,
        but O(scale_sets) does not. These VMs need two more list calls per subscription.
      - V(tagged) lists only those with the tag O(role_tag).
    type: str
    default: none
    choices: [none, tagged, all]
  role_tag:
    description:
      - Name of the tag with the role of an instance, or with several roles, separated by commas. For example, the role
        V(compute) creates the group C(hpcai_compute).
    type: str
    default: hpcai_role
  list_public_addresses:
    description:
      - List public addresses even if neither O(connect_with) nor O(hostnames) uses them.
      - This needs one more list call for each Uniform scale set with public addresses. It also needs one more list call
        for each subscription in which other listed machines have public addresses.
    type: bool
    default: false
  list_virtual_networks:
    description:
      - List the virtual networks, with one more list call per subscription. The playbooks need them to check whether a
        virtual network overlaps C(172.16.0.0/16), from which Azure takes the addresses of InfiniBand adapters. With
        V(false), this check is skipped.
    type: bool
    default: true
  query:
    description:
      - A JMESPath expression over the variables of one host (all but C(ansible_host)). Only hosts for which the
        expression is true are listed.
    type: str
  hostnames:
    description:
      - Values to use as host name. The first value that an instance has is used. If it has none of these values, the
        name of its resource is used.
      - Two instances with the same name are an error. A later value is used only if the earlier ones are missing, and
        not to avoid such an error.
    type: list
    elements: str
    default: [computer_name]
    choices: [computer_name, name, vm_id, private_ipv4, public_ipv4]
  connect_with:
    description:
      - How to reach hosts. The first of these values that an instance has becomes C(ansible_host). An instance that has
        none of them gets no C(ansible_host), and is not in the groups C(hpcai_ROLE).
      - V(private_ipv4) and V(public_ipv4) are addresses of the primary interface, unless O(connect_subnet) or
        O(connect_nic) selects another one.
    type: list
    elements: str
    default: [private_ipv4]
    choices: [private_ipv4, public_ipv4, computer_name]
  connect_subnet:
    description:
      - For C(ansible_host), only use interfaces with a private address in this network, such as V(10.0.1.0/24).
    type: str
  connect_nic:
    description:
      - For C(ansible_host), only use interfaces with this name. V(*), V(?) and V([...]) work as in file names.
    type: str
  on_error:
    description:
      - What to do when a list call fails, when there are fewer hosts than O(min_hosts), or when the number of instances
        dropped by more than O(max_drop_percent).
      - V(fail) publishes nothing and makes the source fail.
      - V(warn) publishes what was listed, with a warning, and marks the inventory as incomplete. If no host was listed,
        the source fails.
      - V(use_cache) publishes the last complete answer, with a warning that gives the answer's age, and marks the
        inventory as incomplete. There is no limit on the age. If the cache contains no complete answer, the source
        fails. V(use_cache) needs O(cache), with a O(cache_plugin) that keeps its data after the run.
      - A scale set that is deleted during the listing is not an error. The summary counts it.
    type: str
    default: fail
    choices: [fail, warn, use_cache]
  min_hosts:
    description:
      - It is an error if there are fewer hosts than this number.
    type: int
    default: 0
  max_drop_percent:
    description:
      - It is an error if the number of instances has dropped by more than this percentage since the last complete
        answer in the cache. By default, or if the cache contains no such answer, this is not checked.
      - To accept the drop, run once with C(--flush-cache). This option needs O(cache), with a O(cache_plugin) that
        keeps its data after the run.
    type: float
  timeout:
    description:
      - Timeout in seconds for all requests to Azure together, including the time in which throttled requests wait.
    type: int
    default: 300
  max_concurrency:
    description:
      - Maximum number of requests at the same time.
    type: int
    default: 8
"""

EXAMPLES = r"""
# The minimum: all scale sets of a resource group, with the account of `az login`.
plugin: hpcai.azure.azure_vmss
subscription_ids: [11111111-2222-3333-4444-555555555555]
resource_groups: [training]

---
# One cluster: its scale sets and stand-alone VMs. The login node is reached at its public address.
plugin: hpcai.azure.azure_vmss
subscription_ids: [11111111-2222-3333-4444-555555555555]
resource_groups: [training]
include_vms: tagged
tags:
  hpcai_cluster: training
connect_with: [public_ipv4, private_ipv4]

---
# With the managed identity of a virtual machine. The answer is cached for five minutes, and used longer if Azure fails.
plugin: hpcai.azure.azure_vmss
subscription_ids: [11111111-2222-3333-4444-555555555555]
auth_source: managed_identity
resource_groups: [training]
scale_sets: ["compute-*"]
on_error: use_cache
max_drop_percent: 20
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/hpcai-azure-inventory
cache_timeout: 300

---
# Only Linux machines in zone 1 that are not spot machines, grouped by a custom tag.
plugin: hpcai.azure.azure_vmss
subscription_ids: "{{ lookup('ansible.builtin.file', '~/.azure-subscriptions').splitlines() }}"
query: azure_os_type == 'Linux' && azure_zone == '1' && azure_priority != 'Spot'
keyed_groups:
  - key: azure_tags.team
    prefix: team
compose:
  ansible_user: azure_admin_username
"""

import time
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable, get_cache_plugin

from ..plugin_utils._azure.concurrency import Deadline
from ..plugin_utils._azure.errors import InventoryError
from ..plugin_utils._azure.facts import Listing
from ..plugin_utils._azure.hosts import check_unique
from ..plugin_utils._azure.options import Options, check_names, read_options
from ..plugin_utils._azure.publish import Publisher, no_garbage_collection
from ..plugin_utils._azure.report import SourceReport, report_source, summary
from ..plugin_utils._azure.selection import explain_no_hosts, make_scope
from ..plugin_utils._azure.source import ListingCache, Outcome, cache_key, read_source

_SUFFIXES = ("azure_vmss.yml", "azure_vmss.yaml")
_NO_TEMPLATES = ("compose", "groups", "keyed_groups", "query")
# Cache plugins that lose everything when the process ends.
_FORGETFUL = ("memory", "ansible.builtin.memory")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Instances of Azure scale sets as Ansible hosts."""

    NAME = "hpcai.azure.azure_vmss"

    def verify_file(self, path: str) -> bool:
        """Say whether ``path`` is a source of this plugin."""
        return bool(super().verify_file(path)) and path.endswith(_SUFFIXES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Read one source into the inventory, or raise and leave the inventory as it was."""
        super().parse(inventory, loader, path, cache)
        try:
            with no_garbage_collection():
                self._parse(inventory, path, remember=cache)
        except AnsibleParserError as error:
            if not (C.config.get_config_value("INVENTORY_ANY_UNPARSED_IS_FAILED") and context.CLIARGS):
                raise
            # Ansible's programs would end too, but first try the plugins yaml and ini on this file, and show their
            # errors. They catch each Exception, so only this skips them.
            self.display.error(str(error))
            raise SystemExit(1) from None

    def _parse(self, inventory: Any, path: str, *, remember: bool) -> None:
        self.read_source_options(path)
        started = time.monotonic()
        publisher = Publisher(inventory, self._construct)
        try:
            options = read_options(self.get_option)
            outcome = read_source(options, lambda: _ask(options), self._answer_cache(options), remember=remember)
            named = [(host.name, host.facts["azure_id"]) for host in outcome.hosts.hosts]
            check_unique(named, publisher.known_ids())
        except InventoryError as error:
            # Without the cause, because Ansible would append its text and that of its own causes.
            raise AnsibleParserError(f"{path}: {error}") from None
        selection = options.selection
        scope = make_scope(selection.subscription_ids, selection.resource_groups, selection.scale_sets)
        report = report_source(path, scope, outcome, time.time())
        publisher.publish(outcome.hosts.hosts, report)
        if not outcome.hosts.hosts:
            self.display.warning(f"{path}: {explain_no_hosts(selection, outcome.answer)}")
        self._show_summary(report, outcome, time.monotonic() - started)

    def _show_summary(self, report: SourceReport, outcome: Outcome, seconds: float) -> None:
        if outcome.problems:
            used = f"an answer {report['age_seconds']} s old" if outcome.from_cache else "what could be listed"
            problems = " ".join(outcome.problems)
            self.display.warning(f"{report['source']}: the inventory is not complete, {used} is used: {problems}")
        # On standard error, so that `ansible-inventory --list` prints only JSON on standard output.
        self.display.display(summary(report, outcome, seconds), stderr=True)

    def read_source_options(self, path: str) -> None:
        """Read the options. All except those with a template per host may be templates themselves."""
        config = self._read_config_data(path)
        try:
            check_names(config, self.option_definitions)
        except InventoryError as error:
            raise AnsibleParserError(f"{path}: {error}") from None
        self.templar.available_variables = self._vars or {}
        given = {name: self.templar.template(value) for name, value in config.items() if name not in _NO_TEMPLATES}
        # Set again, because Ansible has split the text of a template at its commas if the option is a list.
        self.set_options(direct={**config, **given}, var_options=self._vars)

    def _answer_cache(self, options: Options) -> ListingCache | None:
        plugin = self.get_option("cache_plugin")
        keeps = self.get_option("cache") and plugin not in _FORGETFUL
        if options.needs_cache and not keeps:
            raise InventoryError(
                f"{options.needs_cache} needs `cache: true` and a cache_plugin that outlives the run, such as "
                "ansible.builtin.jsonfile with a cache_connection."
            )
        if not self.get_option("cache"):
            return None
        if not keeps:
            self.display.warning(
                f"cache: true has no effect, because cache_plugin is {plugin}, which loses everything when the "
                "command ends. Set cache_plugin: ansible.builtin.jsonfile, and cache_connection to a folder."
            )
        # With an expiry of 0 the plugin also returns old answers. read_source checks their age.
        settings = {
            "_timeout": 0,
            "_uri": self.get_option("cache_connection"),
            "_prefix": self.get_option("cache_prefix"),
        }
        self._cache = get_cache_plugin(plugin, **{key: value for key, value in settings.items() if value is not None})
        key = cache_key(options.selection, options.cloud, options.identity)
        return ListingCache(self._cache, key, float(self.get_option("cache_timeout")))

    def _construct(self, name: str, host: Any) -> None:
        """Add the variables and groups that the user composes from the variables of one host."""
        compose, groups, keyed = (self.get_option(option) for option in ("compose", "groups", "keyed_groups"))
        strict = self.get_option("strict")
        if compose:
            self._set_composite_vars(compose, host.get_vars(), name, strict)
        if groups or keyed:
            variables = host.get_vars()
            self._add_host_to_composed_groups(groups, variables, name, strict, fetch_hostvars=False)
            self._add_host_to_keyed_groups(keyed, variables, name, strict, fetch_hostvars=False)


def _ask(options: Options) -> Listing:
    # Imported only when needed, because the import of the SDK takes about a second, which a cached answer can save.
    from ..plugin_utils._azure.listing import list_all

    deadline = Deadline(options.timeout)
    return list_all(options.selection, options.cloud, options.identity, deadline, options.max_concurrency)
