# SPDX-License-Identifier: Apache-2.0
"""Every run in one table: filtered, sorted, grouped, compared, downloaded."""
