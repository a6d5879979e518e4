#!/usr/bin/python
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: azure_preflight
short_description: Check whether Azure allows the resources of a cluster, and estimate their cost
version_added: "0.2.0"
description:
  - A stack is the Azure resources of one cluster. Before anything is created, this module checks whether the
    subscription allows the stack. It reads quota, VM sizes, images, rights, resource providers, subnets, names, locks
    and policies, and compares them with what O(stack) needs.
  - Each check returns a verdict with the value, the limit, the source and an action. The action is a command to run, or
    a request to send to somebody who can fulfil it.
  - The module changes nothing in Azure. It cannot tell whether Azure has enough free machines, because Azure reports
    this only when machines are created.
  - Calculates the cost of 24 hours from the list prices of a price file. If a price is missing in the file, the cost is
    only a lower bound.
  - A failed check does not fail the task. The playbook C(hpcai.azure.preflight) runs this module, and fails if a check
    fails (see its variable C(preflight_fail_on)).
author:
  - hpcai.azure contributors (@hpcai)
requirements:
  - azure-identity >= 1.16.1
  - azure-mgmt-compute >= 36.0.0
  - azure-mgmt-resource-deployments >= 2.0.0
extends_documentation_fragment:
  - hpcai.azure.controller
  - hpcai.azure.azure_connection.module
  - hpcai.azure.azure_connection.sources
options:
  subscription_id:
    description: Id of the subscription.
    type: str
    required: true
  stack:
    description: The description of the stack, usually the variable C(hpcai_stack).
    type: dict
    required: true
  vm_sizes:
    description:
      - VM sizes that you describe yourself, usually the variable C(hpcai_vm_sizes). It is a mapping of names to facts.
    type: dict
    default: {}
  price_file:
    description:
      - Price file in JSON. The guide to costs describes its form. Without O(price_file), the cost is unknown, and the
        check C(cost) has the verdict V(unknown).
      - If O(price_file) is set and O(fetch_prices=never), the file must exist, otherwise the module fails.
        O(fetch_prices=if_missing) and O(fetch_prices=always) require O(price_file).
    type: path
  fetch_prices:
    description:
      - Whether to read the list prices of everything that the stack needs from Azure's public price API, and to write
        them to O(price_file). The API needs no sign-in.
      - V(never) sends no request to that API.
      - V(if_missing) reads the prices only if O(price_file) does not exist.
      - V(always) reads the prices in each run, and replaces O(price_file).
    type: str
    choices: [never, if_missing, always]
    default: never
  currency:
    description: Currency of the fetched prices, as three letters.
    type: str
    default: USD
  prices_endpoint:
    description: Base URL of the price API, for example of a mirror in a network without internet.
    type: str
    default: https://prices.azure.com
  report:
    description:
      - File for the report in JSON. The report contains no timestamp, so the same answers from Azure give the same
        file.
    type: path
  timeout:
    description: Timeout in seconds for all requests together.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Sends all requests and returns all results, without writing files.
    support: full
  diff_mode:
    description: Shows the price file and the report before and after.
    support: full
  idempotent:
    description: If Azure's answers stay the same, a second run changes nothing.
    support: full
seealso:
  - ref: ansible_collections.hpcai.azure.docsite.guide_preflight
    description: All checks, and what to do if one fails.
  - ref: ansible_collections.hpcai.azure.docsite.guide_costs
    description: What a cluster costs, and the form of the price file.
"""

EXAMPLES = r"""
- name: Check what the stack needs, and what it costs
  hpcai.azure.azure_preflight:
    subscription_id: 00000000-0000-4000-8000-000000000001
    stack: "{{ hpcai_stack }}"
    price_file: prices.json
    fetch_prices: if_missing
    report: preflight.json
  delegate_to: localhost
  register: preflight

- name: Stop if something is missing
  ansible.builtin.assert:
    that: preflight.verdict not in ['fail', 'unknown']
    fail_msg: "Preflight ends with {{ preflight.verdict }}."
"""

RETURN = r"""
verdict:
  description:
    - The worst verdict of all checks, V(fail), V(unknown), V(warn) or V(pass). V(unknown) means that the result of a
      check could not be determined, for example because the identity lacks a permission.
  returned: success
  type: str
  sample: warn
counts:
  description: Number of checks for each verdict.
  returned: success
  type: dict
  sample: {"warn": 1, "pass": 21}
checks:
  description: All verdicts, the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: Name of the check.
      type: str
      sample: quota
    about:
      description: What was checked.
      type: str
      sample: Standard NDASv4_A100 Family
    verdict:
      description: V(fail), V(unknown), V(warn) or V(pass).
      type: str
      sample: warn
    summary:
      description: What was found.
      type: str
      sample: 384 vCPUs are free, 384 are needed for the largest number of machines
    value:
      description: What the stack needs, or what was measured. Empty if nothing was measured.
      type: str
      sample: 384 vCPUs more for the largest number of machines
    limit:
      description: What RV(checks[].value) was compared with. Empty if there is no limit.
      type: str
      sample: 384, of which 0 are used
    source:
      description: The request to Azure or the file from which the module read the answer.
      type: str
      sample: Microsoft.Compute/locations/westeurope/usages
    action:
      description:
        - What to do, as a command to run, or as a text to send to somebody who can do it. Empty if there is nothing to
          do.
      type: str
      sample: az provider register --namespace Microsoft.Compute --subscription 00000000-0000-4000-8000-000000000001
cost:
  description:
    - The cost per day. C(total) is the cost of the stack, and C(by_owner) the cost of each of its parts, such as a
      scale set or the network. Each cost consists of C(least), the cost at the smallest size of the cluster, and
      C(most), the cost at the largest size. C(least_complete) and C(most_complete) say whether all prices for this
      cost are known.
    - C(lines) contains each item. C(owner) is its part of the stack, C(what) its description, and C(hourly) the price
      of one unit per hour. In an item, C(least) and C(most) are numbers of units, and C(day_least) and C(day_most) are
      costs per day. Unknown prices and costs are null.
    - C(currency), C(date) (the day of the prices) and C(source) describe the price file. C(currency) and C(date) are
      empty if there is no price file. C(unknown) lists items without a price. C(not_included) lists what costs money
      and is not part of the sum.
  returned: success
  type: dict
  sample:
    currency: USD
    date: "2026-11-20"
    total: {"least": 43.2, "most": 2926.1, "least_complete": true, "most_complete": true}
table:
  description:
    - The report as lines for a terminal. The module shows these lines before its result, because Ansible would fold
      long lines in a result.
  returned: success
  type: list
  elements: str
  sample: ["Preflight of hpc in westeurope: 1 warn, 21 pass."]
files:
  description: Files that the module wrote. In check mode, the files that it would write.
  returned: success
  type: list
  elements: str
  sample: [preflight.json]
requests:
  description: Number of requests that were sent, including retries.
  returned: success
  type: int
  sample: 42
"""
