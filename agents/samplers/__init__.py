# SPDX-License-Identifier: Apache-2.0
"""Drivers of samplers: one module each; the file name is its kind."""
