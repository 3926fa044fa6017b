# SPDX-License-Identifier: Apache-2.0
"""Checks before and after anything is done to a layout."""
