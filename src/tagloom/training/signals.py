"""Stopping cleanly: Ctrl-C, SIGTERM and SIGHUP are noted, and the work saves before it leaves."""

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from tagloom.errors import TagloomError
from tagloom.training.launched import is_launched

# SIGHUP comes when a terminal is closed or an ssh connection drops. Windows has none.
_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *([] if _HANGUP is None else [_HANGUP]))
STOPPED = 128  # plus the signal: the exit code of what was stopped


class Interrupted(TagloomError):  # noqa: N818  it is not an error
    """The user or the system asked to stop; everything is saved.

    `folder` names the run, where it is known.
    """

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)  # exactly the arguments, so that pickling between processes works
        self.exit_code = STOPPED + signal_number
        self.folder: Path | None = None

    def __str__(self) -> str:
        return "everything so far is saved."


class StopRequest:
    """Notes SIGINT, SIGTERM and SIGHUP while it is entered. A second Ctrl-C stops at once.

    One of several processes gets a Ctrl-C twice, from the terminal and from whoever started it, who also decides how
    long it may take to save. So there a second one changes nothing.

    One inside another passes on what it noted when it is left: work of several runs stops even if a run came to its end
    before it could.

    Signals can be caught in the main thread only, so in any other thread it never asks to stop.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self.signal_number is not None

    def leave_if_requested(self) -> None:
        """Raise `Interrupted` if somebody asked to stop. Call it only where everything is saved."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number)

    def listen(self) -> None:
        """Catch the signals, even if another library has replaced our handlers since."""
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if number == _HANGUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # nohup: whoever started this process wants it to outlive the terminal
                self._before.setdefault(number, signal.signal(number, self._note))

    def __enter__(self) -> "StopRequest":
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
            outer = getattr(handler, "__self__", None)
            if number == self.signal_number and isinstance(outer, StopRequest):
                outer.signal_number = number
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT and not is_launched():
            raise KeyboardInterrupt
        self.signal_number = number
