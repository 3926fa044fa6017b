# SPDX-License-Identifier: Apache-2.0
"""Behind `manage.py up`: bootstrap, embedded PostgreSQL and Valkey, our SSH server, the supervisor.

`bootstrap` and `trouble` run before anything is installed: standard library only.
"""
