# SPDX-License-Identifier: Apache-2.0
"""Drivers as a whole: what each must have, how they are found, the programs that they need, all readers at one text."""
