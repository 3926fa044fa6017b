# SPDX-License-Identifier: Apache-2.0
"""Lifecycle of campaigns, topologies and workloads: renamed, archived, deleted, brought back, removed for good."""
