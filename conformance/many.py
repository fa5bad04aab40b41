"""Judges several implementations, two at a time, each in a process of its own; keeps what it has when it is interrupted."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.isolated import Request, judge_isolated
from relpos.conformance.verdict import Verdict

WORKERS = 2


def judge_one(spec: str, options: Mapping[str, Any], profile_name: str) -> Verdict | str:
    """One implementation by name; a string says why nothing was judged."""
    try:
        return judge_isolated(Request(spec, options, profile=profile_name))
    except (AdapterError, UsageError, ValueError) as error:
        return str(error)


def judge_many(
    jobs: Mapping[str, tuple[str, Mapping[str, Any]]],
    profile_name: str,
    *,
    progress: Callable[[str, Verdict | str], None] = lambda name, verdict: None,
) -> tuple[dict[str, Verdict | str], bool]:
    """Verdicts by label, in the order of the jobs, and whether all of them were reached."""
    found: dict[str, Verdict | str] = {}
    pool = ThreadPoolExecutor(WORKERS)  # the threads only wait: the work is done in processes
    try:
        waiting = {pool.submit(judge_one, spec, options, profile_name): label for label, (spec, options) in jobs.items()}
        for future in as_completed(waiting):
            found[waiting[future]] = future.result()
            progress(waiting[future], found[waiting[future]])
        complete = True
    except KeyboardInterrupt:
        complete = False
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return {label: found[label] for label in jobs if label in found}, complete
