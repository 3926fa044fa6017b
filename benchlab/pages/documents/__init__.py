# SPDX-License-Identifier: Apache-2.0
"""The documents of docs/, served to who is signed in."""
