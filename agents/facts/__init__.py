# SPDX-License-Identifier: Apache-2.0
"""Commands that describe a host, and pure parsers of what they print."""
