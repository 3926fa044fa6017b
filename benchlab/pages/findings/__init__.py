# SPDX-License-Identifier: Apache-2.0
"""Actions on findings on pages: dismissed with a note, taken back."""
