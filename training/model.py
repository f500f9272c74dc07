"""A small language model, and data for it to learn: sequences of a fixed Markov chain, made from a sample's number."""

# PyTorch is no package of this project's own environment, so its types are unknown to the checker.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.data import seed_of
from training.shape import HEADS, LENGTH, VOCABULARY


class Block(nn.Module):
    """One layer of a transformer: attention to what came before, then a perceptron."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """(batch, length, width) to the same."""
        batch, length, width = hidden.shape
        split = self.attention(self.before_attention(hidden)).chunk(3, -1)
        query, key, value = (each.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for each in split)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return hidden + self.dropout(self.mlp(self.before_mlp(hidden)))


class Model(nn.Module):
    """Tokens (batch, length) to the logits of each next one (batch, length, VOCABULARY)."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """See the class."""
        hidden = self.tokens(tokens) + self.places
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


class Sequences:
    """The dataset: sample `number` is always the same sequence of LENGTH + 1 tokens."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        generator = torch.Generator().manual_seed(seed_of(seed, "chain"))
        # Row t: how likely each token is after t, added up.
        self._after = torch.softmax(3 * torch.randn(VOCABULARY, VOCABULARY, generator=generator), -1).cumsum(-1)

    def batch(self, numbers: list[int]) -> tuple[Tensor, Tensor]:
        """Inputs and what follows each of them, both (len(numbers), LENGTH)."""
        draws = [
            torch.rand(LENGTH + 1, generator=torch.Generator().manual_seed(seed_of(self._seed, "sample", number)))
            for number in numbers
        ]
        drawn = torch.stack(draws) if draws else torch.empty(0, LENGTH + 1)
        tokens = torch.zeros(len(numbers), LENGTH + 1, dtype=torch.long)
        tokens[:, 0] = (drawn[:, 0] * VOCABULARY).long()
        for place in range(1, LENGTH + 1):
            found = torch.searchsorted(self._after[tokens[:, place - 1]], drawn[:, place : place + 1].contiguous())
            tokens[:, place] = found.squeeze(-1).clamp(max=VOCABULARY - 1)
        return tokens[:, :-1], tokens[:, 1:]
