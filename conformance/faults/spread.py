"""Many small tasks over several processes: what each gives is handed on as it comes, and an interruption ends all of them."""

import multiprocessing
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from relpos.conformance.errors import AdapterError

PRELOADED = ["relpos.conformance.faults.alarms", "relpos.conformance.faults.killing", "relpos.conformance.faults.sizes"]


def spread(
    function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], jobs: int, done: Callable[[tuple[Any, ...], Any], None]
) -> None:
    """Call a function with the arguments of every task; one job stays in this process."""
    if jobs == 1:
        for task in tasks:
            done(task, function(*task))
        return
    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin)
    try:
        waiting = {pool.submit(function, *task): task for task in tasks}
        for future in as_completed(waiting):
            done(waiting[future], future.result())
    except BrokenProcessPool:
        raise AdapterError("a process died: the memory may be short. The same command goes on; --jobs 1 needs less.") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()


def _context() -> Any:
    """Forked from a server that has imported the judge and run nothing: quick, and no thread is lost in the fork."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    torch.set_num_threads(1)
