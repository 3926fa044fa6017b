# SPDX-License-Identifier: Apache-2.0
"""docs/diagnosis.md and the rules name each other."""

from __future__ import annotations

import re

from benchlab.diagnosis.answers import NOTHING_WRONG
from benchlab.diagnosis.model import all_rules
from benchlab.installation import ROOT


def test_each_rule_has_one_row_and_each_row_a_rule() -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    rows = re.findall(r"^\| (R\d\d) \|", page, re.MULTILINE)
    assert sorted(rows) == sorted([*all_rules(), NOTHING_WRONG])
