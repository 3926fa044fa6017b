# SPDX-License-Identifier: Apache-2.0
"""The audit log, as a page and as CSV."""
