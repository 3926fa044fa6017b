# SPDX-License-Identifier: Apache-2.0
"""Phases of a layout and its attempts, and the actions of each."""
