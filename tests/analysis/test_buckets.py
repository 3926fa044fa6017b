"""Buckets keep every peak, and are what the samples themselves give, however often they were made coarser."""

from __future__ import annotations

import math
import random
import statistics
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.analysis.series import (
    COARSE,
    FINE,
    Buckets,
    bucket_samples,
    samples_per_bucket,
    stored_step,
)

NAN = float("nan")
noise = st.floats(-1e9, 1e9) | st.just(NAN)


def made(rows: list[list[float]], times: list[float] | None = None) -> Buckets:
    at = [float(n) for n in range(len(rows[0]))] if times is None else times
    return bucket_samples(np.asarray(at), np.asarray(rows, dtype=float))


def by_hand(row: list[float], every: int) -> list[list[float]]:
    """Known values in each bucket."""
    return [
        [one for one in row[at : at + every] if not math.isnan(one)]
        for at in range(0, len(row), every)
    ]


def same(found: np.ndarray, wanted: list[float]) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-3)


@given(st.lists(st.lists(noise, min_size=90, max_size=90), min_size=1, max_size=4), st.data())
def test_coarse_buckets_are_what_the_samples_give(rows, data):
    first, more = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    found = made(rows).coarser(first).coarser(more)
    every = first * more
    assert found.every == every
    for n, row in enumerate(rows):
        known = by_hand(row, every)
        same(found.low[n], [min(one, default=NAN) for one in known])
        same(found.high[n], [max(one, default=NAN) for one in known])
        assert found.sample_counts[n].tolist() == [len(one) for one in known]
        same(found.means[n], [math.fsum(one) / len(one) if one else NAN for one in known])
        for b, one in enumerate(known):
            if one:
                assert row[found.low_at[n, b]] == min(one) and row[found.high_at[n, b]] == max(one)
                assert found.low_at[n, b] // every == found.high_at[n, b] // every == b


@given(st.lists(st.lists(noise, min_size=50, max_size=50), min_size=1, max_size=5), st.data())
def test_a_band_is_over_all_devices(rows, data):
    every = data.draw(st.integers(1, 12))
    low, high, middle = made(rows).coarser(every).band(list(range(len(rows))))
    each = [by_hand(row, every) for row in rows]
    for b, of_devices in enumerate(zip(*each, strict=True)):
        every_one = [value for known in of_devices for value in known]
        same(low[b : b + 1], [min(every_one, default=NAN)])
        same(high[b : b + 1], [max(every_one, default=NAN)])
        means = [math.fsum(known) / len(known) for known in of_devices if known]
        same(middle[b : b + 1], [statistics.median(means) if means else NAN])


@given(st.lists(st.floats(-1e9, 1e9), min_size=50, max_size=500), st.integers(2, 40))
def test_a_line_keeps_extremes_and_order(values, every):
    times, kept = made([values]).coarser(every).device_line(0)
    assert len(kept) <= 2 * -(-len(values) // every)
    assert (min(kept), max(kept)) == (min(values), max(values))
    assert times.tolist() == sorted(times)
    assert all(values[int(at)] == value for at, value in zip(times, kept, strict=True))


def test_a_gap_stays_a_gap():
    _, kept = made([[1.0] * 100 + [NAN] * 100 + [1.0] * 100]).coarser(10).device_line(0)
    assert np.isnan(kept).any()


def test_single_samples_are_told_as_they_are():
    times, kept = made([[5.0, NAN, 6.0]], [1.0, 2.1, 3.0]).device_line(0)
    assert times.tolist() == [1.0, 2.1, 3.0]
    np.testing.assert_array_equal(kept, [5.0, NAN, 6.0])


def test_a_mean_is_drawn_in_the_middle_of_its_bucket():
    assert made([[0.0] * 5], [1.0, 2.0, 3.0, 4.0, 9.0]).coarser(2).middles.tolist() == [1.5, 3.5, 9]


@pytest.mark.parametrize("pixels", [100, 500, 2000])
def test_widths_can_be_made_of_what_is_stored_and_fill_a_panel(pixels):
    dice = random.Random(3)
    for samples in islice(iter(lambda: dice.randrange(1, 200_000), None), 500):
        every = samples_per_bucket(samples, pixels)
        assert stored_step(every) in (1, FINE, COARSE)
        assert every <= FINE or stored_step(every) >= FINE
        count = -(-samples // every)
        assert count <= 2 * pixels if every == 1 else pixels / 2 <= count <= pixels
