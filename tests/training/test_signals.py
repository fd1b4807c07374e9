"""Ctrl-C, SIGTERM and SIGHUP are noted and answered at a good moment; a second Ctrl-C is answered at once."""

import os
import pickle
import signal
import threading

import pytest

from tagloom.errors import TagloomError
from tagloom.training.signals import Interrupted, StopRequest


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_is_noted_and_gives_its_exit_code(number, code):
    with StopRequest() as stop:
        stop.leave_if_requested()
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(Interrupted) as caught:
            stop.leave_if_requested()
    assert caught.value.exit_code == code
    assert isinstance(caught.value, TagloomError)


def test_a_second_ctrl_c_breaks_off_at_once():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_sigterm_changes_nothing():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal_number == signal.SIGTERM


def test_it_listens_again_where_somebody_else_put_a_handler_and_gives_back_the_first():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal_number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stop_can_be_told_to_another_process():
    again = pickle.loads(pickle.dumps(Interrupted(signal.SIGTERM)))  # noqa: S301 - our own bytes
    assert (again.exit_code, str(again)) == (143, "everything so far is saved.")


def test_the_handlers_of_before_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) not in before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_nothing_is_caught_and_nothing_fails():
    before, results = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            results.append(stop.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]
    assert signal.getsignal(signal.SIGINT) is before


def test_one_inside_another_passes_on_what_it_noted():
    with StopRequest() as outer:
        with StopRequest():
            os.kill(os.getpid(), signal.SIGTERM)
            assert not outer.requested
        with pytest.raises(Interrupted):
            outer.leave_if_requested()
