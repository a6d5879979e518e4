# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let Ansible render templates with the collection's filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template


@pytest.fixture
def render() -> Callable[..., Any]:
    """Render an expression with variables, as a task does."""

    def rendered(expression: str, **variables: Any) -> Any:
        templar = Templar(DataLoader(), variables=variables)
        return templar.template(trust_as_template("{{ " + expression + " }}"))

    return rendered
