# SPDX-License-Identifier: Apache-2.0
"""Modules that apps have by a name agreed upon: how a room offers something to one below it, without its knowing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from django.apps import apps
from django.utils.module_loading import module_has_submodule


def modules_named(name: str) -> list[ModuleType]:
    """benchlab.<app>.<name> of each app of ours that has it, in the order of INSTALLED_APPS."""
    ours = [app for app in apps.get_app_configs() if app.name.startswith("benchlab.")]
    with_module = [app for app in ours if app.module and module_has_submodule(app.module, name)]
    return [import_module(f"{app.name}.{name}") for app in with_module]
