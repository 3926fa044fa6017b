# SPDX-License-Identifier: Apache-2.0
"""Audit log, of who did what to which host and device: append-only, each entry sealed by the hash of the one before."""
