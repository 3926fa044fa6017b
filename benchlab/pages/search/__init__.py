# SPDX-License-Identifier: Apache-2.0
"""One field that finds whatever a person's teams have, and the reference library's articles."""
