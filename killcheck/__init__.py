"""killcheck pulls the switch that turns your GPUs off, sabotages what it depends on, and proves that the bill stops.

The public API is what is exported here; everything else may change.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
