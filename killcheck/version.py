"""The version of killcheck, where everything can read it."""

__all__ = ["__version__"]

__version__ = "0.1.0"
