# SPDX-License-Identifier: Apache-2.0
"""Texts that people write: comments, notes, names."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError

# characters
MAX_TEXT_LENGTH = 10_000
# Would change how the text around them reads; half of a character cannot be stored.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean_text(text: str, most: int = MAX_TEXT_LENGTH, *, empty: bool = False) -> str:
    """Raises ValidationError: nothing said, or too much."""
    text = CONTROL.sub("", text).strip()
    if not text and not empty:
        raise ValidationError("Write something first.")
    if len(text) > most:
        raise ValidationError(f"That is {len(text)} characters; the limit is {most}.")
    return text
