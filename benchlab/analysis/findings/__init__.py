# SPDX-License-Identifier: Apache-2.0
"""Findings on whether a number is valid, or what it means, in chapters by subject: see benchlab.analysis.finding."""
