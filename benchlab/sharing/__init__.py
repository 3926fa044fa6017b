# SPDX-License-Identifier: Apache-2.0
"""Sharing within a team and with guests: links for guests, comments, tags, notes, stars, views."""
