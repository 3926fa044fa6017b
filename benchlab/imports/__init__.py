# SPDX-License-Identifier: Apache-2.0
"""Results that were measured elsewhere: a person's uploads, and the reference library."""
