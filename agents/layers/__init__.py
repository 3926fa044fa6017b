# SPDX-License-Identifier: Apache-2.0
"""Drivers of storage layers: one module each; the file name is its kind."""
