# SPDX-License-Identifier: Apache-2.0
"""Campaigns: a question and a matrix of runs."""
