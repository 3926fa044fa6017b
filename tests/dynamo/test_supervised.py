"""`manage.py up` listens for dynamos only where it was asked for, by address and by whom."""

from __future__ import annotations

import pytest

from benchlab.up import supervised

BOTH = {"BENCHLAB_DYNAMO_LISTEN": "0.0.0.0:1066", "BENCHLAB_DYNAMO_ALLOW": "192.0.2.0/24"}


@pytest.mark.parametrize("missing", [*BOTH, ""])
def test_both_must_be_said(missing: str) -> None:
    recipe = supervised.dynamo_listener(
        {name: said for name, said in BOTH.items() if name != missing}
    )
    assert (recipe is None) is bool(missing)
    assert recipe is None or recipe.argv[-1] == "dynamo_listener"
