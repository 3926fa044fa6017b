# SPDX-License-Identifier: Apache-2.0
"""Diagnosis: what explains the figures of a pasted text or a campaign, and what to measure next."""
