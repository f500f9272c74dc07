"""Which samples a rank gets, and the learning rate: functions of the step alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import data
from training.schedule import learning_rate


@given(samples=st.integers(1, 60), size=st.integers(1, 40), seed=st.integers(0, 5))
def test_every_sample_comes_once_in_each_epoch(samples: int, size: int, seed: int) -> None:
    # Whole epochs, whatever piece of them a batch is.
    stream = [number for step in range(samples) for number in data.batch(seed, step, size, samples)]
    for epoch in range(size):
        assert sorted(stream[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


def test_epochs_differ_and_so_do_seeds() -> None:
    assert data.order(1, 0, 100) != data.order(1, 1, 100)
    assert data.order(1, 0, 100) != data.order(2, 0, 100)


@given(ranks=st.integers(1, 9), size=st.integers(1, 40))
def test_ranks_share_a_batch_whole(ranks: int, size: int) -> None:
    batch = data.batch(7, 3, size, 1000)
    shares = [data.share(batch, rank, ranks) for rank in range(ranks)]
    assert Counter(number for share in shares for number in share) == Counter(batch)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_seeds_are_apart_and_stay_the_same() -> None:
    seeds = {data.seed_of(1234, "dropout", step, rank) for step in range(50) for rank in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)
    # A run that was begun with another release must find the same draws.
    assert data.seed_of(1234, "dropout", 0, 0) == 2901200243910841718
    assert data.batch(1234, 0, 4, 100) == [26, 34, 43, 70]


def test_the_rate_rises_then_falls_to_a_tenth() -> None:
    rates = [learning_rate(step, peak=1.0, warmup=10, steps=110) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[110] == pytest.approx(0.1)


def test_a_run_that_is_all_warm_up_has_a_rate() -> None:
    assert learning_rate(5, peak=1.0, warmup=5, steps=5) == 1.0
