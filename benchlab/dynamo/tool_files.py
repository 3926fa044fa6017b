# SPDX-License-Identifier: Apache-2.0
"""Files that only IOmeter's dynamo has, for the pages of campaigns and workloads of any tool (charts/cards.py)."""

from __future__ import annotations

TOOL = "dynamo"
OF_CAMPAIGN = {"campaign-iometer-csv": "IOmeter's .csv"}
OF_WORKLOAD = {"workload-icf": "As IOmeter's .icf"}
