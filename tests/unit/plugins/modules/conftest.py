# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module's main() in this process, as Ansible does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

Outcome = dict[str, Any]
RunModule = Callable[..., Outcome]


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    """Call main() with arguments and return its result. `_exit` is its exit status."""

    def run(main: Callable[[], NoReturn], check_mode: bool = False, **arguments: Any) -> Outcome:
        with (
            patch_module_args({**arguments, "_ansible_check_mode": check_mode, "_ansible_diff": True}),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        answer: Outcome = json.loads(capsys.readouterr().out)
        return {**answer, "_exit": ended.value.code}

    return run


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The module's warnings. In this process Ansible prints warnings at once and does not return them."""
    warnings: list[str] = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, warning: warnings.append(warning))
    return warnings
