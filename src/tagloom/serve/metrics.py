"""What a server counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counters of one server. Endpoints are named by their pattern, so a client cannot make up new ones."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "tagloom_request", "Requests answered.", ("endpoint", "code"), registry=self.registry
        )  # exposed as tagloom_request_total
        self.in_progress = Gauge(
            "tagloom_request_in_progress", "Requests being answered.", ("endpoint",), registry=self.registry
        )
        self.seconds = Histogram(
            "tagloom_request_duration_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("endpoint", "code"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batch_size = Histogram(
            "tagloom_request_batch_size",
            "Pictures computed together.",
            ("model", "kind"),
            buckets=_SIZES,
            registry=self.registry,
        )

    def text(self) -> bytes:
        """Write all figures as Prometheus reads them."""
        return generate_latest(self.registry)
