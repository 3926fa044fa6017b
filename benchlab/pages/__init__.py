# SPDX-License-Identifier: Apache-2.0
"""Pages of the nouns below the engine, a folder a noun: they show what the rooms above that noun know of it."""
