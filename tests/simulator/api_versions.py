# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes api_versions.json, the published versions of Resource Manager's interface for each type of resource.

    python -m simulator.api_versions CLONE > tests/simulator/api_versions.json

CLONE is a clone of Azure/bicep-types-az, whose types are generated from the schemas in Azure/azure-rest-api-specs. The
repository contains only the names of types and their versions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from simulator.schema_fields import BODIES

TYPES = (
    *BODIES,
    "Microsoft.Compute/galleries",
    "Microsoft.Compute/galleries/images",
    "Microsoft.Compute/galleries/images/versions",
    "Microsoft.Compute/images",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
    "Microsoft.Resources/deployments",
)
"""Types that can be PUT. The clone lacks versions of types that can only be read."""
NEWER = {
    "Microsoft.Compute/galleries": "2026-03-03",
    "Microsoft.Compute/galleries/images": "2026-03-03",
    "Microsoft.Compute/galleries/images/versions": "2026-03-03",
    "Microsoft.Resources/deployments": "2026-06-01",
} | {kind: "2026-03-01" for kind in TYPES if kind.startswith("Microsoft.Network/") and "/privateDnsZones" not in kind}
"""Versions that the clone of August 2026 does not have yet, from Azure's Python packages: azure-mgmt-compute 39.0.0,
azure-mgmt-network 33.1.0, azure-mgmt-resource-deployments 2.0.0."""
HEADING = re.compile(r"^## Resource ([\w./]+)@(\d{4}-\d\d-\d\d(?:-preview)?)", re.MULTILINE)


def versions(clone: str) -> dict[str, list[str]]:
    """The versions of each type of resource, the oldest first."""
    found: dict[str, set[str]] = {kind.lower(): set() for kind in TYPES}
    providers = "|".join(sorted({re.escape(kind.partition("/")[0]) for kind in TYPES}))
    wanted = re.compile(rf"/({providers})/[^/]+/types\.md$", re.IGNORECASE)
    names = _git(clone, "ls-tree", "-r", "--name-only", "HEAD", "generated").splitlines()
    for name in filter(wanted.search, names):
        for kind, version in HEADING.findall(_git(clone, "show", f"HEAD:{name}")):
            found.get(kind.lower(), set()).add(version)
    for kind, version in NEWER.items():
        found[kind.lower()].add(version)
    return {kind: sorted(found[kind.lower()]) for kind in sorted(TYPES)}


def _git(clone: str, *words: str) -> str:
    return subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Print the document."""
    clone = sys.argv[1]
    lines = (f"  {json.dumps(kind)}: {json.dumps(one)}" for kind, one in versions(clone).items())
    commit = json.dumps(_git(clone, "rev-parse", "HEAD").strip())
    sys.stdout.write(f'{{\n "commit": {commit},\n "versions": {{\n' + ",\n".join(lines) + "\n }\n}\n")


if __name__ == "__main__":
    main()
