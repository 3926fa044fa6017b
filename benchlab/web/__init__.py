# SPDX-License-Identifier: Apache-2.0
"""Shared code of the pages and the API of every room: errors, paging, filters, schema, static files."""
