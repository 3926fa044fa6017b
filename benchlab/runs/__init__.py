# SPDX-License-Identifier: Apache-2.0
"""Results: layouts, attempts, steps, artifacts, measurements, series."""
