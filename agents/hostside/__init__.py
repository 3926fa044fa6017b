# SPDX-License-Identifier: Apache-2.0
"""POSIX sh that runs on the host. Nothing is installed there: the scripts travel with each job."""
