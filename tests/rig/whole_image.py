"""Run by `manage.py shell` in the image: loads all our modules, and uses libraries that parts were taken out of."""

from __future__ import annotations

import io
from importlib import import_module
from pkgutil import walk_packages

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from scipy.special import polygamma, psi, stdtr, stdtrit

import agents
import benchlab
from benchlab.results import arrow
from benchlab.results.columns import Kind
from benchlab.team import api_docs

for package in (benchlab, agents):
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            import_module(module.name)

# Tables of Student's t; the digamma and trigamma function at 1 and 1/2.
SPECIAL = (
    (stdtrit(3, 0.975), 3.182446305284263),
    (stdtr(3, 3.182446305284263), 0.975),
    (psi(1), -np.euler_gamma),
    (polygamma(1, 0.5), np.pi**2 / 2),
)
for got, wanted in SPECIAL:
    assert abs(float(got) - wanted) < 1e-12, (got, wanted)

# What exports are made of: CSV is read, Arrow and Parquet are written, and read again.
fields = [
    arrow.Field("metric", Kind.TEXT),
    arrow.Field("value", Kind.NUMBER, "1/s"),
    arrow.Field("at", Kind.TIME),
]
found = list(arrow.csv_tables(fields, iter([b'iops,12.5,2026-11-28T10:00:00Z\n"a, b",,\n'])))
assert found[0].num_rows == 2
stream = b"".join(arrow.arrow_stream(fields, found))
assert pa.ipc.open_stream(stream).read_all().equals(found[0])
written = b"".join(arrow.parquet(fields, found))
assert pa.parquet.ParquetFile(io.BytesIO(written)).read().equals(found[0])
assert b"12.5" in b"".join(arrow.columnar_json(fields, arrow.json_columns(fields, found)))

assert api_docs.operation_groups()
print("All is there.")
