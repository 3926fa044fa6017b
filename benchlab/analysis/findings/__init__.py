# SPDX-License-Identifier: Apache-2.0
"""Findings on whether a number is valid, or what it means: a module each, see benchlab.analysis.finding."""
