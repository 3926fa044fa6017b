# SPDX-License-Identifier: Apache-2.0
"""Rules of the diagnosis, a chapter a module; benchlab/diagnosis/model.py finds them."""
