"""Everything random in a test comes from the run's seed, whichever process runs it and whatever ran before.

That is what Hypothesis draws, and what `os.urandom`, `secrets` and `uuid` give to the code under test: a key that holds
"10" by chance must not fail a test on one day in a hundred.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, core, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from benchlab.testing import profiles

NAME = "benchlab-seeding"
# Hosts and browsers draw for themselves, and share places with other runs, in which names must differ.
UNSEEDED = ("rig", "browser")

_system_urandom = os.urandom
_bytes_of_test: random.Random | None = None


def register(config: pytest.Config) -> None:
    """Before any test module is imported: Hypothesis' settings are read where a test is decorated."""
    if config.pluginmanager.hasplugin(NAME):
        return
    config.pluginmanager.register(Seeding(), NAME)
    _seed_hypothesis()
    os.urandom = _urandom
    setattr(random, "_urandom", _urandom)  # noqa: B010  # SystemRandom's, which `secrets` uses


def _seed_hypothesis() -> None:
    setattr(core, "global_force_seed", profiles.seed())  # noqa: B010
    # It also draws the constants of modules that happen to be loaded, which differ from process to process.
    no_constants = Constants()
    setattr(providers, "_get_local_constants", lambda: no_constants)  # noqa: B010
    settings.register_profile(
        "benchlab",
        # How long an example takes depends on the machine, not on the code.
        deadline=None,
        # Failures of earlier runs are not tried first: the same seed draws the same.
        database=None,
        max_examples=profiles.examples(100),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("benchlab")


class Seeding:
    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        global _bytes_of_test
        seeded = not any(item.get_closest_marker(name) for name in UNSEEDED)
        _bytes_of_test = profiles.random_for(item.nodeid) if seeded else None


def _urandom(size: int, /) -> bytes:
    return _bytes_of_test.randbytes(size) if _bytes_of_test else _system_urandom(size)
