"""The first 4 KiB of a disk as wipefs left it after xfs, from a rig host: Linux 6.1 saw partitions 1, 3, 4, 6 in it."""

from __future__ import annotations

import base64
import gzip

_HEAD = (
    "H4sIAAAAAAACA2NgAAEBMMnAxIABvho+4N1w2X33ngc1l++svK4JFmRkYINKN0DpRijdBJaFCLNAhBwYtixlAhnN"
    "kZRjBDeXh5OTmZ+BQZIBpggCbCHm738AU/cfDUCFOdCcCbSTsQuCwYAXiLlBjPYlZr9BbkHSD1TLoMQwCsAgwtHd"
    "DRomsOhkREoJjAg5MM0CwfXvgPgFzvQBUcuKpJeeAGSntJSZ5cXR2CUq/j3R4h+UF5mhYqD82PB/FPxHT+epv74X"
    "I6c3aN5gRMszQyD+3Xzw5GOGrEMF/NByE1Tms0PLXs7RFDE8wGgJOApGwSgYBaNgFIw8AAAexBNFABAAAA=="
)
XFS_WITHOUT_MAGIC = gzip.decompress(base64.b64decode(_HEAD))
