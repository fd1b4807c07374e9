"""What every application of this package serves."""

from typing import Protocol

from tagloom.serve.limits import Limits
from tagloom.serve.metrics import Metrics


class Served(Protocol):
    """Limits and counts, whether new requests are welcome, and how it ends."""

    limits: Limits
    metrics: Metrics
    ready: bool

    async def close(self) -> None:
        """Finish what waits."""
