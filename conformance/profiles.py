"""How many inputs a law is tried on: fixed counts, never times, so that a verdict repeats."""

from dataclasses import dataclass

from relpos.conformance.errors import UsageError
from relpos.conformance.laws import laws
from relpos.conformance.laws.base import Law
from relpos.conformance.scopes import Scope


@dataclass(frozen=True)
class Profile:
    """A number of drawn inputs per law, before the law's own share.

    steps   of each history, where what is drawn is a history (L4)
    heavy   laws that measure or compile are tried as well
    rare    inputs that take many seconds each are tried as well
    scope   what is walked through whole before anything is drawn; None: nothing
    """

    name: str
    inputs: int
    steps: int
    covers: str
    heavy: bool = False
    scope: Scope | None = None
    rare: bool = False

    def inputs_for(self, law: Law) -> int:
        """Drawn inputs for one law; at least 2 where it draws any."""
        return 0 if law.share == 0 else max(2, round(self.inputs * law.share))

    def laws(self) -> tuple[Law, ...]:
        """The laws it tries."""
        return tuple(law for law in laws() if self.heavy or not law.heavy)


# Of few tokens, which every implementation answers at once; all distances that positions up to 2^17 have; everything.
FEW = Scope(length=2, window=5, distance=0, others=0, edges=0)
CLAIMED = Scope(length=6, window=7, distance=2**17, others=2**13, edges=2**20)
ALL = Scope(length=6, window=7, distance=2**20, others=2**20, edges=2**20)

PROFILES = {
    p.name: p
    for p in (
        Profile("smoke", 4, 3, "seconds: does it run at all and is it roughly right"),
        Profile("quick", 25, 5, "every law, few inputs: what runs over all built-ins", scope=FEW),
        Profile("default", 150, 8, "about two minutes: what a stranger's implementation gets", heavy=True, scope=CLAIMED),
        Profile("thorough", 1000, 12, "for a release: rare inputs too", heavy=True, rare=True, scope=ALL),
    )
}


def profile(name: str) -> Profile:
    """A profile by name; UsageError with the names there are."""
    if name not in PROFILES:
        there = "; ".join(f"{p.name} ({p.covers})" for p in PROFILES.values())
        raise UsageError(f"--profile must be one of: {there}; got {name!r}.")
    return PROFILES[name]
