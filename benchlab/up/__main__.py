# SPDX-License-Identifier: Apache-2.0
"""`python -m benchlab.up`: the command `benchlab`."""

import sys

from benchlab.up.command import main

sys.exit(main())
