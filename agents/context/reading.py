# SPDX-License-Identifier: Apache-2.0
"""All facts of a pasted text."""

from __future__ import annotations

from agents.context.model import Facts


def read_facts(text: str) -> Facts:
    """Facts in the text; line numbers are those of `text`, from 1. Never raises."""
    return Facts()
