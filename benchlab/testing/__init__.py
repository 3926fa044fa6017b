# SPDX-License-Identifier: Apache-2.0
"""`manage.py test` and `bench`: what they start, run, count, measure and clear away."""
