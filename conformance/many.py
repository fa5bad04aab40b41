"""Judges several implementations, two at a time, and keeps what it has when it is interrupted."""

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import torch

from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.loading import load
from relpos.conformance.profiles import profile
from relpos.conformance.subject import plug_in
from relpos.conformance.verdict import Verdict, judge

WORKERS = 2


def judge_one(spec: str, options: Mapping[str, Any], profile_name: str) -> Verdict | str:
    """One implementation by name; a string says why nothing was judged."""
    torch.set_num_threads(1)
    try:
        subject = plug_in(load(spec), spec=spec, **options)
        return judge(subject, profile(profile_name))
    except (AdapterError, UsageError) as error:
        return str(error)


def judge_many(
    jobs: Mapping[str, tuple[str, Mapping[str, Any]]],
    profile_name: str,
    *,
    progress: Callable[[str, Verdict | str], None] = lambda name, verdict: None,
) -> tuple[dict[str, Verdict | str], bool]:
    """Verdicts by label, in the order of the jobs, and whether all of them were reached."""
    found: dict[str, Verdict | str] = {}
    # Spawned, not forked: torch's threads do not survive a fork.
    pool = ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
    try:
        waiting = {pool.submit(judge_one, spec, options, profile_name): label for label, (spec, options) in jobs.items()}
        for future in as_completed(waiting):
            label = waiting[future]
            try:
                found[label] = future.result()
            except BrokenProcessPool:
                found[label] = "the process that judged it, or one beside it, died; judge it alone: python -m relpos check"
            progress(label, found[label])
        complete = True
    except KeyboardInterrupt:
        complete = False
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return {label: found[label] for label in jobs if label in found}, complete
