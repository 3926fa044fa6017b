# SPDX-License-Identifier: Apache-2.0
"""Errors of the services of hosts."""

from __future__ import annotations


class HostsError(Exception):
    """A request that cannot be met. The text, shown to people, says what is wrong, with what, and what to do."""
