"""Ray clusters that cannot be reached; no Ray is started here."""

from types import SimpleNamespace

import pytest

from tagloom import cluster
from tagloom.cluster import ray_cluster
from tagloom.errors import TagloomError


@pytest.mark.parametrize("error", [ConnectionError("nobody answers"), ValueError("no address"), RuntimeError("old")])
def test_a_cluster_that_cannot_be_reached_is_said_to_be(monkeypatch, error):
    def refuse(**options: object) -> None:
        raise error

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr(cluster, "import_module", lambda name: ray)
    with pytest.raises(TagloomError, match="RAY_ADDRESS"), ray_cluster(SimpleNamespace()):
        pass
