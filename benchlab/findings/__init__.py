# SPDX-License-Identifier: Apache-2.0
"""Findings: what stored runs are evidence of, what was found of it, and who said that it does not matter."""
