# SPDX-License-Identifier: Apache-2.0
"""Changes to answers on pages: dismissed with a note, taken back."""
