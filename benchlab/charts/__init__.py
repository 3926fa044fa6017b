# SPDX-License-Identifier: Apache-2.0
"""Queries -> analysis -> Plotly figures as dicts."""
