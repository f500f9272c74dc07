"""The size of the reference model, known without PyTorch."""

VOCABULARY = 64
LENGTH = 32
"""Tokens of a sample, without the one that follows the last."""

HEADS = 4


def parameters(width: int, layers: int) -> int:
    """How many numbers the model learns."""
    layer = 12 * width * width + 13 * width
    return layers * layer + (2 * VOCABULARY + LENGTH) * width + VOCABULARY
