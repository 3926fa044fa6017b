# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine that stand beside results in a pasted text: output of lsblk, mdstat, zpool and others."""
