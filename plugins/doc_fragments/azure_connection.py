# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connection options of the plugins and modules that send requests to Azure from the controller."""

from __future__ import annotations

import re


class ModuleDocFragment:
    """Endpoint and credentials for Azure."""

    DOCUMENTATION = r"""
options:
  cloud:
    description:
      - The Azure cloud that contains the subscriptions.
    type: str
    default: AzureCloud
    choices: [AzureCloud, AzureUSGovernment, AzureChinaCloud]
  endpoint:
    description:
      - Base URL of Azure Resource Manager. By default, it is that of O(cloud). Set this option, for example, for Azure
        Stack or for a simulated Azure.
      - Plain V(http) is accepted only for an address of the control node, because otherwise the token
        would cross the network unencrypted.
    type: str
    env:
      - name: HPCAI_AZURE_ENDPOINT
  auth_source:
    description:
      - How to sign in. All methods except V(token) use the Python package C(azure-identity).
      - V(auto) tries, in this order, environment variables such as E(AZURE_CLIENT_ID), a workload identity, a managed
        identity, and C(az login). If O(token) is set, V(auto) is the same as V(token).
      - V(cli) uses the account that is logged in with C(az login).
      - V(managed_identity) uses the managed identity of the virtual machine on which Ansible runs. If the machine has
        several identities, O(client_id) selects one.
      - V(workload_identity) uses the federated identity of a Kubernetes pod or a pipeline.
      - V(service_principal) uses O(tenant_id), O(client_id), and either O(client_secret) or O(certificate_path).
      - V(environment) uses only the environment variables of C(azure-identity)'s C(EnvironmentCredential).
      - V(token) sends O(token) unchanged.
    type: str
    default: auto
    choices: [auto, cli, managed_identity, workload_identity, service_principal, environment, token]
  tenant_id:
    description:
      - The directory (tenant) to sign in to.
      - Used with O(auth_source=cli), O(auth_source=workload_identity) and O(auth_source=service_principal).
    type: str
  client_id:
    description:
      - Client id of the application or of the user-assigned managed identity that signs in.
    type: str
  client_secret:
    description:
      - Secret of the application. Keep it in an Ansible Vault, or use an identity that needs no secret.
    type: str
  certificate_path:
    description:
      - Certificate of the application with its private key (PEM or PKCS12), instead of O(client_secret).
    type: str
  token:
    description:
      - A bearer token for a simulated Azure on the control node. The token is refused if O(endpoint) is
        on another machine.
    type: str
    env:
      - name: HPCAI_AZURE_TOKEN
"""

    # Options of a module cannot have 'env', so it is removed here, and SOURCES names the variables. The type annotation
    # makes the yamllint of ansible-test skip this text, because it can only check string literals.
    MODULE: str = re.sub(r"    env:\n(?:      - name: \w+\n)+", "", DOCUMENTATION)

    SOURCES = r"""
options:
  sources:
    description:
      - Inventory source files of P(hpcai.azure.azure_vmss#inventory). For each subscription, the module uses the
        connection options of the first source that lists this subscription. You therefore need not set these options
        again in the task.
      - If O(sources) is empty, the connection options of the task apply. O(endpoint) and O(token) then default to the
        environment variables E(HPCAI_AZURE_ENDPOINT) and E(HPCAI_AZURE_TOKEN).
    type: list
    elements: path
    default: []
"""
