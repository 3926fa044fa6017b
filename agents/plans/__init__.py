# SPDX-License-Identifier: Apache-2.0
"""A topology and a host make a plan: layers, commands, disks; and what is left of one that was applied."""
