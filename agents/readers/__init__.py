# SPDX-License-Identifier: Apache-2.0
"""Readers of results that were measured elsewhere: one module per kind (agents.drivers.protocols.Reader)."""
