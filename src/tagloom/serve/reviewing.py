"""The application of `tagloom review`: one session, its photos, and a thread that learns."""

import io
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from fastapi import FastAPI
from PIL import Image

from tagloom.data.images import open_image
from tagloom.errors import TagloomError
from tagloom.review.session import Session, summary
from tagloom.serve import health, pages, review_routes
from tagloom.serve.assembly import assemble
from tagloom.serve.bodies import Desk
from tagloom.serve.guard import Access
from tagloom.serve.limits import Limits
from tagloom.serve.metrics import Metrics

_KEPT = 96  # shown photos that are kept in memory, at most about 40 MB


@dataclass
class Retraining:
    """How far a retraining is, for the page.

    Attributes:
        state: What it does.
        done: Photos whose features are known.
        total: Photos whose features were missing; 0 while there is nothing to count.
        message: What came out, or what is wrong.
        round: How many retrainings are finished.
    """

    state: Literal["idle", "working", "failed"] = "idle"
    done: int = 0
    total: int = 0
    message: str = ""
    round: int = 0


class ReviewService:
    """A session over HTTP.

    Args:
        session: The session.
        limits: What is accepted.
    """

    def __init__(self, session: Session, limits: Limits) -> None:
        self.session, self.limits = session, limits
        self.metrics, self.ready = Metrics(), True
        self.desk = Desk(limits)
        self.retraining = Retraining()
        self._starting = threading.Lock()
        self.shown = lru_cache(_KEPT)(self._shown)

    def state(self) -> dict[str, Any]:
        """Say how far the review and a retraining are."""
        return summary(self.session) | {"retraining": vars(self.retraining).copy()}

    def card(self, row: int) -> dict[str, Any]:
        """Say all that the page shows of a photo."""
        labels = [vars(label) for label in self.session.labels_of(row)]
        return {"row": row, "name": self.session.table.images[row], "labels": labels}

    def retrain(self) -> None:
        """Begin to retrain, unless it is being done. The thread ends with the process: all it writes is a cache."""
        with self._starting:
            if self.retraining.state == "working":
                return
            self.retraining = Retraining("working", round=self.retraining.round)
        threading.Thread(target=self._learn, args=(self.retraining,), daemon=True).start()

    def _learn(self, status: Retraining) -> None:
        def progress(done: int, total: int) -> None:
            status.done, status.total = done, total

        try:
            learned = self.session.retrain(progress)
        except TagloomError as error:
            status.message, status.state = str(error), "failed"
        except Exception:
            status.message, status.state = "it failed. The log of the server says why.", "failed"
            raise
        else:
            status.round += 1
            status.message = (
                f"Learned from {learned.answers:,} answers in {learned.seconds:.0f} s. Suggestions changed on "
                f"{learned.changed:,} photos."
            )
            status.state = "idle"

    def _shown(self, row: int, side: int) -> bytes:
        """Give a photo as a JPEG, small enough to be shown; `shown` keeps the last ones."""
        picture = open_image(self.session.table.image(row), max_pixels=self.limits.pixels, at_least=(side, side))
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=88)
        return file.getvalue()

    async def close(self) -> None:
        """Close the file of answers."""
        self.session.answers.close()


def create_review_app(session: Session, *, access: Access | None = None, limits: Limits | None = None) -> FastAPI:
    """Make the application of a review."""
    service = ReviewService(session, limits or Limits())
    if session.has_learned:  # before a restart: its suggestions come back by themselves
        service.retrain()
    routers = (review_routes.routes(service), health.routes(service))
    return assemble(service, routers, pages.static_files(pages.REVIEW), access or Access())
