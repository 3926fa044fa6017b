# SPDX-License-Identifier: Apache-2.0
"""Devices of a run: how the members share the work, and where the additional outstanding I/Os queue."""
