# SPDX-License-Identifier: Apache-2.0
"""Any parameter or metric on x, y, colour, dash, marker and facet: lines, their numbers and their figure."""
