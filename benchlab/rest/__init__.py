# SPDX-License-Identifier: Apache-2.0
"""The REST API, a module a noun, and its addresses in `urls`. What they share is in benchlab.web."""
