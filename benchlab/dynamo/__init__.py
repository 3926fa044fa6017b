# SPDX-License-Identifier: Apache-2.0
"""IOmeter's dynamo for the team: its program, hosts that only dynamo reaches, and IOmeter's own files."""
