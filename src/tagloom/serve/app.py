"""The application of `tagloom serve`: its taggers and all dialects."""

from fastapi import FastAPI

from tagloom.predict.tagger import Tagger
from tagloom.serve import health, label_studio, open_inference, pages, v1
from tagloom.serve.assembly import assemble
from tagloom.serve.bodies import Desk
from tagloom.serve.guard import Access
from tagloom.serve.limits import Limits
from tagloom.serve.metrics import Metrics
from tagloom.serve.service import Service
from tagloom.serve.taggers import serve_taggers


def create_app(
    taggers: dict[str, Tagger],
    *,
    access: Access | None = None,
    limits: Limits | None = None,
    label_studio_files: label_studio.TaskFiles | None = None,
) -> FastAPI:
    """Make the application of some taggers.

    Args:
        taggers: The taggers by name; the first one answers where a request names none.
        access: Who may ask; by default this machine alone, without a token.
        limits: What is accepted.
        label_studio_files: Where the pictures of Label Studio's tasks are, if it may read them.
    """
    limits = limits or Limits()
    metrics = Metrics()
    service = Service(serve_taggers(taggers, limits, metrics), limits, Desk(limits), metrics)
    routers = (
        v1.routes(service),
        health.routes(service),
        open_inference.routes(service),
        label_studio.routes(service, label_studio_files or label_studio.TaskFiles()),
    )
    return assemble(service, routers, pages.static_files(), access or Access())
