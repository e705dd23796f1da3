"""kpacktools: split and merge per-architecture ROCm builds without losing or fusing a kpack."""

__version__ = "0.1.0"
