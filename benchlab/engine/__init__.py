# SPDX-License-Identifier: Apache-2.0
"""The engine: a scene is loaded, pure functions decide by it, `act` does what they said, the database remembers."""
