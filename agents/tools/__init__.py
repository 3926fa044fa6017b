# SPDX-License-Identifier: Apache-2.0
"""Drivers of benchmark tools: one module each; the file name is its kind."""
