# SPDX-License-Identifier: Apache-2.0
"""Parsers of what programs print, and of what they are told: tools, samplers and readers share them."""
