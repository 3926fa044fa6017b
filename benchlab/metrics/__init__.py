# SPDX-License-Identifier: Apache-2.0
"""Metrics of the whole installation for Prometheus."""
