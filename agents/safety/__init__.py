# SPDX-License-Identifier: Apache-2.0
"""Nothing is written that is not provably ours: the guard, what it reads in commands, and the one executor."""
