"""Quantities as Kubernetes writes them."""

from __future__ import annotations

import pytest

from localcloud.in_cluster.objects import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5Gi", 1.5 * 1024**3),
        ("100Gi", 100 * 1024**3),
        ("1Ti", 1024**4),
        ("1T", 10**12),
        ("2k", 2000),
        ("1Ei", 1024**6),
        ("1E", 10**18),
        ("1e3", 1000),
        ("12E2", 1200),
        ("500m", 0.5),
    ],
)
def test_quantities(text: str, value: float) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1GiB", "1 Gi", "ten"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity(text)
