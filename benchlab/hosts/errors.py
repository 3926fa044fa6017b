# SPDX-License-Identifier: Apache-2.0
"""Errors of the services of hosts."""

from __future__ import annotations


class HostsError(Exception):
    """A wish that cannot be; the text says what is wrong, with what, and what to do. It is shown to people."""
