# SPDX-License-Identifier: Apache-2.0
"""Commands, scripts and words of them that several layers share."""
