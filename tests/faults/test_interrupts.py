"""Signals during a fit: what is kept, what is written, and how the process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bigdag import DAG, ProxiMAS, SortRegress, interrupts
from bigdag.interrupts import (
    ask_to_end,
    ends_like_ctrl_c,
    interruptible,
    terminable,
    undisturbed,
)

# The command, whose first lasso never ends before somebody asks it to.
SLOW = """
    import pathlib, sys, time
    import bigdag.engine.lasso as lasso
    from bigdag.cli import main

    usual = lasso.solve

    def solve(gram, lambda1, *, stop=None, **options):
        looks = 0
        def endless():
            nonlocal looks
            looks += 1
            if looks > 2:  # some columns are solved by then
                pathlib.Path("ready").touch()
                while not stop():
                    time.sleep(0.01)
            return stop()
        return usual(gram, lambda1, stop=endless, **options)

    lasso.solve = solve
    main()
"""


@pytest.fixture(autouse=True)
def usual_signals():
    """Let signals mean what they usually do, also where the tests' own shell ignores them."""
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """Return a function that starts the slow command and waits until it works."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 400))
    X[:, 1:] += X[:, :-1]
    pd.DataFrame(X).add_prefix("v").to_parquet("t.parquet")
    Path("slow.py").write_text(textwrap.dedent(SLOW))
    started = []

    def start(*words: str, ignored: tuple[int, ...] = ()) -> subprocess.Popen[str]:
        def child() -> None:  # whatever the tests' own shell ignores
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        process = subprocess.Popen(
            [sys.executable, "slow.py", "fit", "t.parquet", "--quiet", "--n-jobs", "1", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=child,
            start_new_session=True,
        )
        started.append(process)
        while not Path("ready").exists() and process.poll() is None:
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_writes_what_a_deadline_would(slow, number):
    process = slow("--method", "proximas")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 1, stderr
    assert "was interrupted. The best DAG so far was written to t.dag.parquet" in stderr
    assert DAG.load("t.dag.parquet").n_arcs > 0  # of the columns that were solved


def test_a_burst_of_signals_ends_the_command_in_one_sentence(slow):
    process = slow("--method", "proximas")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
        process.send_signal(number)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "nterrupted" in stderr
    assert "Traceback" not in stderr
    left = {path.name for path in Path().iterdir()} - {"t.parquet", "slow.py", "ready"}
    assert left <= {"t.dag.parquet"}  # whole or not there
    for name in left:
        DAG.load(name)


def test_a_background_job_that_ignores_ctrl_c_still_ends_cleanly(slow):
    process = slow("--method", "proximas", ignored=(signal.SIGINT, signal.SIGHUP))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=100)
    assert process.returncode == 1
    assert DAG.load("t.dag.parquet").n_arcs > 0


def test_nothing_does_not_replace_a_file(tmp_path, monkeypatch):
    from test_cli import bigdag_

    monkeypatch.chdir(tmp_path)
    pd.DataFrame(np.random.default_rng(0).normal(size=(30, 5))).add_prefix("v").to_csv(
        "t.csv", index=False
    )
    good = DAG(np.diag(np.ones(4), 1))
    good.save("good.parquet")

    def learn(self, run):
        raise KeyboardInterrupt

    monkeypatch.setattr(ProxiMAS, "_learn", learn)
    words = ["fit", "t.csv", "--method", "proximas", "--out", "good.parquet", "--force"]
    _, stderr = bigdag_(*words, code=1)
    assert "interrupted before it had found an arc" in stderr
    assert "good.parquet was left as it is" in stderr
    assert DAG.load("good.parquet") == good


def test_a_loop_over_tables_can_be_ended():
    X = np.random.default_rng(0).normal(size=(30, 5))
    fitted = []

    def loop():
        for _ in range(3):
            model = SortRegress(callback=lambda state: os.kill(os.getpid(), signal.SIGINT))
            fitted.append(model)
            model.fit(X)

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert len(fitted) == 1
    assert fitted[0].status_ == "interrupted"
    assert fitted[0].dag_.n_nodes == 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture(autouse=True)
def _ctrl_c_is_not_ignored():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_signals_sent_together_are_one(monkeypatch):
    monkeypatch.setattr("bigdag.interrupts._BY_HAND", 100.0)  # however slow the machine is
    model = SortRegress(callback=lambda state: [signal.raise_signal(signal.SIGINT) for _ in "abc"])
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.random.default_rng(0).normal(size=(30, 5)))
    assert model.status_ == "interrupted"
    assert model.n_iter_ == 1  # it came to the look at the clock after the callback


def test_a_second_ctrl_c_ends_at_once(monkeypatch):
    monkeypatch.setattr("bigdag.interrupts._BY_HAND", 0.0)
    seen = []

    def endless(state):
        os.kill(os.getpid(), signal.SIGINT)  # asks
        seen.append("asked")
        os.kill(os.getpid(), signal.SIGINT)
        seen.append("still here")

    model = SortRegress(callback=endless)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.random.default_rng(0).normal(size=(30, 5)))
    assert seen == ["asked"]
    assert model.status_ == "interrupted"


def test_ctrl_c_pressed_twice_is_not_taken_for_one_that_came_twice(monkeypatch):
    """A finger is slower than what sends several signals for one, and may be quick all the same."""
    monkeypatch.setattr("bigdag.interrupts._TOGETHER", 100.0)
    with ends_like_ctrl_c(), interruptible() as interrupt:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)  # the end of a terminal, say: one with the first
        interrupt.asked_at -= 0.05
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_program_s_own_handler_stays():
    calls = []
    signal.signal(signal.SIGINT, lambda *_: calls.append(1))
    SortRegress(callback=lambda state: os.kill(os.getpid(), signal.SIGINT)).fit(
        np.random.default_rng(0).normal(size=(30, 5))
    )
    assert calls == [1]


def test_other_signals_are_as_before_afterwards():
    with ends_like_ctrl_c():
        assert signal.getsignal(signal.SIGTERM) is ask_to_end
        with interruptible() as interrupt:
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


# ------------------------------------------------------------------ several signals, nested

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM
CONTEXTS = {
    "a command": [ends_like_ctrl_c],
    "experiments": [terminable],
    "experiments in a command": [ends_like_ctrl_c, terminable],
    "a runner in experiments in a command": [ends_like_ctrl_c, terminable, terminable],
}


@pytest.mark.parametrize("contexts", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("numbers", [(INT, TERM, HUP, HUP), (HUP, HUP), (TERM, INT, TERM)])
def test_signals_that_come_together_raise_once(contexts, numbers):
    raised, cleared = 0, []
    before = [signal.getsignal(number) for number in (HUP, INT, TERM)]
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context())
        try:
            signal.raise_signal(numbers[0])
        except KeyboardInterrupt:
            raised += 1
        for number in numbers[1:]:  # before the clearing, within it and after it
            signal.raise_signal(number)
        with undisturbed():
            for number in numbers:
                signal.raise_signal(number)
            cleared.append("all of it")
        for number in numbers:
            signal.raise_signal(number)
    assert (raised, cleared) == (1, ["all of it"])
    assert [signal.getsignal(number) for number in (HUP, INT, TERM)] == before


def test_signals_while_clearing_away_are_obeyed_afterwards():
    done = []

    def clear_away():
        with ends_like_ctrl_c(), undisturbed():
            with undisturbed():
                for number in (INT, TERM, HUP):
                    signal.raise_signal(number)
                done.append("the inner part")
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        clear_away()
    assert done == ["the inner part", "the rest"]


def test_an_interrupt_that_was_lost_does_not_make_a_process_deaf(monkeypatch):
    with terminable():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(TERM)
        signal.raise_signal(TERM)  # it came with the first
        monkeypatch.setattr(interrupts, "_TOGETHER", -1.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(TERM)


def test_one_burst_is_forgotten_when_the_command_ends():
    for _ in range(2):
        with ends_like_ctrl_c(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(TERM)


@pytest.mark.parametrize("numbers", [(INT, TERM), (TERM, HUP), (HUP, INT)])
def test_a_fit_within_a_command_is_asked_once_by_whatever_signal(numbers):
    first, second = numbers
    with ends_like_ctrl_c():
        with interruptible() as interrupt, interruptible() as same:
            signal.raise_signal(first)
            assert interrupt.asked
            assert same is interrupt
            signal.raise_signal(second)  # it came with the first
            interrupt.asked_at -= 2
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(second)
            for number in (INT, TERM, HUP):  # with the second
                signal.raise_signal(number)
        with interruptible() as interrupt:  # the next fit is another one
            assert not interrupt.asked


def test_a_handler_that_a_callback_installs_stays():
    def own(*_):
        pass

    SortRegress(callback=lambda state: signal.signal(signal.SIGINT, own) and None).fit(
        np.random.default_rng(0).normal(size=(30, 5))
    )
    assert signal.getsignal(signal.SIGINT) is own
    with terminable():
        signal.signal(signal.SIGTERM, own)
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is own


def test_a_signal_at_the_very_end_of_a_fit_leaves_no_trace(monkeypatch):
    """While the handler is put back, the interrupt is still there: nothing is raised."""
    usual = signal.signal

    def late(number, handler):
        if handler is signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return usual(number, handler)

    monkeypatch.setattr(interrupts.signal, "signal", late)
    with interruptible() as interrupt:
        pass
    assert interrupt.asked
    with interruptible() as interrupt:
        assert not interrupt.asked


def test_ignored_signals_stay_ignored_but_for_those_that_end_experiments():
    usual = [(number, signal.signal(number, signal.SIG_IGN)) for number in (HUP, INT, TERM)]
    try:
        with ends_like_ctrl_c(), interruptible() as interrupt:
            for number in (HUP, INT, TERM):
                signal.raise_signal(number)
            assert not interrupt.asked
            with terminable():
                signal.raise_signal(HUP)
                assert not interrupt.asked
                signal.raise_signal(TERM)
                assert interrupt.asked
        assert {signal.getsignal(number) for number in (HUP, INT, TERM)} == {signal.SIG_IGN}
    finally:
        for number, handler in usual:
            signal.signal(number, handler)


def test_no_handler_is_installed_outside_of_the_main_thread():
    before = [signal.getsignal(number) for number in (HUP, INT, TERM)]
    seen = []

    def work():
        with ends_like_ctrl_c(), terminable(), interruptible() as interrupt, undisturbed():
            seen.append([signal.getsignal(number) for number in (HUP, INT, TERM)])
            ask_to_end()
            seen.append(interrupt.asked)

    thread = threading.Thread(target=work)
    with interruptible() as interrupt:
        during = [signal.getsignal(number) for number in (HUP, INT, TERM)]
        thread.start()
        thread.join()
        assert not interrupt.asked  # it is another thread's
    assert seen == [during, True]
    assert [signal.getsignal(number) for number in (HUP, INT, TERM)] == before
