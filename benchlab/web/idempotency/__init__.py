# SPDX-License-Identifier: Apache-2.0
"""POST with an Idempotency-Key is done once, however often it is sent."""
