# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""Where manual pages and completion scripts are installed.

Their texts come from the package cli, which this package may not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...machine.os_release import read_os_release
from ...machine.root import Root

SHARE = "/usr/share"
MANUAL = f"{SHARE}/man/man1"
BASH = f"{SHARE}/bash-completion/completions/hpcnode"
ZSH_DEBIAN, ZSH_OTHER = f"{SHARE}/zsh/vendor-completions/_hpcnode", f"{SHARE}/zsh/site-functions/_hpcnode"
"""zsh's search path: Debian and Ubuntu reserve the first folder for packages and do not search the second one, EL
searches only the second one."""


@dataclass(frozen=True)
class Pages:
    """Texts to install, each with the mark of the module.

    :ivar manual: manual pages of section 1, by file name.
    :ivar bash: the script for bash; empty for none.
    :ivar zsh: the script for zsh; empty for none.
    """

    manual: Mapping[str, str] = field(default_factory=dict)
    bash: str = ""
    zsh: str = ""


def paths_of(root: Root) -> list[str]:
    """Return the paths that are or could be installed pages."""
    manual = [name for name in root.entries(MANUAL) if name.startswith("hpcnode")]
    return [BASH, ZSH_DEBIAN, ZSH_OTHER, *(f"{MANUAL}/{name}" for name in manual)]


def placed(pages: Pages, root: Root) -> dict[str, str]:
    """Return the pages by their paths on a machine."""
    release = read_os_release(root)
    families = (release.get("ID", ""), *release.get("ID_LIKE", "").split())
    zsh = ZSH_DEBIAN if "debian" in families else ZSH_OTHER
    texts = {BASH: pages.bash, zsh: pages.zsh, **{f"{MANUAL}/{name}": text for name, text in pages.manual.items()}}
    return {path: text for path, text in texts.items() if text}
