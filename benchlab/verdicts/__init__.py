# SPDX-License-Identifier: Apache-2.0
"""Answers of a campaign's numbers: which set-up is faster, by how much, how sure, and what would decide it."""
