"""How long a worker may say nothing: time on the clock, unless the machine gave that time to others."""

import os
import time
from pathlib import Path

AT_MOST = 10  # times the patience asked for, whatever the reason
WANTS_TO_RUN = "RDT"  # running or runnable, at the disk, stopped: it waits for the machine, not for itself
JITTER_SECONDS = 0.01


class Waiting:
    """Since when nothing was heard of a process, and what processor time it had used by then."""

    def __init__(self, pid: int) -> None:
        self.pid, self.heard = pid, time.monotonic()
        self.used = usage(pid)[0]

    def hear(self, at: float | None = None) -> None:
        """Something was heard, now or at `at` seconds of the monotonic clock."""
        at = time.monotonic() if at is None else at
        if at > self.heard + JITTER_SECONDS:
            self.heard, self.used = at, usage(self.pid)[0]

    def is_over(self, patience_seconds: float) -> bool:
        """Whether patience has ended; one that wants to run and is not let is waited for, up to `AT_MOST` times as long."""
        waited = time.monotonic() - self.heard
        if waited <= patience_seconds:
            return False
        used, state = usage(self.pid)
        starved = state in WANTS_TO_RUN and used - self.used < patience_seconds / 2
        return not starved or waited > AT_MOST * patience_seconds


def usage(pid: int) -> tuple[float, str]:
    """Processor seconds and state (a letter, see proc(5)) of a process; 0 and "?" where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0, "?"
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0]
