# Copyright (c) 2026, hpcai.azure contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause

"""What the node does about its clocks at boot: the settings file that ``hpcnode clocks apply`` reads."""

from __future__ import annotations

import os

from ...machine.atomic import remove_file, write_file
from ...machine.config import FOLDER, ConfigError, as_config, read_config
from ...machine.root import Root
from .wanted import CONFIG, Wanted, wanted_of


def read_boot(root: Root) -> Wanted | None:
    """Return what is wanted at each boot; None where there is no settings file.

    :raises ConfigError: the file cannot be used.
    """
    options = read_config(root, CONFIG)
    try:
        return None if options is None else wanted_of(options)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{root.at(FOLDER)}/{CONFIG}.json: {error}: run the playbook again, which writes it."
        ) from error


def set_boot(root: Root, wanted: Wanted, check_mode: bool = False) -> dict[str, str]:
    """Have the wish renewed at each boot; the wish for the defaults needs no file, as each boot begins with them.

    :return: the change in the form of Ansible's diff; empty where there is none.
    :raises OSError: the file cannot be written.
    """
    path = root.at(f"{FOLDER}/{CONFIG}.json")
    after = "" if wanted.state == "default" and wanted.persistence is None else as_config(wanted.as_options())
    before = ""
    there = os.path.lexists(path)
    if there:
        with open(path, encoding="utf-8", errors="replace") as file:
            before = file.read()
    # An empty file is one that no boot can use.
    if before == after and bool(after) == there:
        return {}
    if not check_mode and after:
        write_file(path, after)
    elif not check_mode:
        remove_file(path)
    return {"before": before, "after": after, "before_header": path, "after_header": path}
