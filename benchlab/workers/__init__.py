# SPDX-License-Identifier: Apache-2.0
"""Messages to workers, their sign of life, and leases in PostgreSQL."""
