from __future__ import annotations

import pytest

from tests.api.conftest import api, other_api
from tests.imports.conftest import shelved
from tests.verdicts.bench import Bench

__all__ = ["api", "other_api", "shelved"]


@pytest.fixture
def bench(team, user) -> Bench:
    return Bench(team)
