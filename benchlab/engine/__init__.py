# SPDX-License-Identifier: Apache-2.0
"""The engine: load a layout's state, decide on it by pure functions, carry the decision out, and store the result."""
