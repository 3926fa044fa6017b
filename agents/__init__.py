# SPDX-License-Identifier: Apache-2.0
"""All that touches a host. Imports neither Django nor benchlab."""
