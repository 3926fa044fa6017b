# SPDX-License-Identifier: Apache-2.0
"""Accounts and the teams that own everything."""
