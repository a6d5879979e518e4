# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user's operations repository, with the collection installed from its archive."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from .cluster import REPOSITORY, Cluster, Recap, program

SITE = "- import_playbook: hpcai.azure.site\n"


@dataclass(frozen=True)
class OpsRepository:
    """The repository's folder, and the cluster that it describes."""

    path: Path
    cluster: Cluster

    @classmethod
    def create(cls, path: Path, cluster: Cluster, source: Path = REPOSITORY) -> OpsRepository:
        """Build the archive, install it below ``path``, and write the two files that a user writes.

        :param source: the clone from which the archive is built.
        """
        made = cls(path, cluster)
        made.install(source)
        (path / "ansible.cfg").write_text("", encoding="utf-8")
        (path / "site.yml").write_text(SITE, encoding="utf-8")
        cluster.write_inventory(path)
        return made

    def install(self, source: Path) -> None:
        """Build the archive of a clone, and install it in place of the current one."""
        built = self.path / "built"
        _run("collection", "build", str(source), "--output-path", str(built), "--force")
        (archive,) = built.glob("hpcai-azure-*.tar.gz")
        where = ("--collections-path", str(self.path / "collections"))
        _run("collection", "install", str(archive), *where, "--offline", "--force")
        archive.unlink()

    def playbook(self, playbook: str, *arguments: str, inventory: str = "azure_vmss.yml", **environment: str) -> Recap:
        """Run a playbook in the repository, without access to the clone.

        :param inventory: relative to the repository.
        """
        return self.cluster.playbook(
            playbook,
            self.path / inventory,
            *arguments,
            cwd=self.path,
            ANSIBLE_CONFIG=str(self.path / "ansible.cfg"),
            ANSIBLE_COLLECTIONS_PATH=str(self.path / "collections"),
            **environment,
        )

    def site(self, *arguments: str) -> Recap:
        """Run the one-line site.yml."""
        return self.playbook("site.yml", *arguments)


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [program("ansible-galaxy"), *arguments], cwd="/", capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
