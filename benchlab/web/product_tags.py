# SPDX-License-Identifier: Apache-2.0
"""Template tags about the product itself: its version, and what to type for one of its commands."""

from django import template

from benchlab import __version__
from benchlab.installation import command

register = template.Library()
register.simple_tag(command, name="command")


@register.simple_tag(name="version")
def product_version() -> str:
    return __version__
