# SPDX-License-Identifier: Apache-2.0
"""Ways to access a host, and the acts of each: one module per way, here or as `access` in the room that knows it."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from benchlab import app_modules
from benchlab.engine.actions import Actions
from benchlab.engine.decide import Rules


class Access(Protocol):
    """Access to a host. `KIND`: the value of Host.access. Its rules decide by phase; its acts do what they decide."""

    KIND: str
    RULES: Rules
    ACTIONS: Actions


@cache
def all_accesses() -> dict[str, Access]:
    """All accesses by their KIND."""
    own = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    accesses = [cast(Access, module) for module in (*own, *app_modules.modules_named("access"))]
    return {access.KIND: access for access in accesses}
