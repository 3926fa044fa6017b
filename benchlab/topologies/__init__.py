# SPDX-License-Identifier: Apache-2.0
"""Topologies: named stacks of layers."""
