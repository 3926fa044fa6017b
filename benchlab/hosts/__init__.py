# SPDX-License-Identifier: Apache-2.0
"""Hosts, their devices, credentials and facts."""
