# SPDX-License-Identifier: Apache-2.0
"""A tool on its host: started detached, polled, fetched, stopped; files of any size."""
