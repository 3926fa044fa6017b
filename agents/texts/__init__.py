# SPDX-License-Identifier: Apache-2.0
"""Texts that people and programs bring: as they were pasted, results found in them, figures taken out."""
