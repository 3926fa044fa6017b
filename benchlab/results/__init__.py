# SPDX-License-Identifier: Apache-2.0
"""The long tidy tables for notebooks: every measurement, every value of every series, in one call."""
