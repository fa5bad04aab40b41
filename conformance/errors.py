"""What can go wrong while judging, by cause."""


class UsageError(ValueError):
    """The judge was asked for something that makes no sense."""


class AdapterError(Exception):
    """The implementation cannot be called, or what it returns cannot be read; nothing was judged."""


class Refused(Exception):
    """The implementation declines a setting by name, as it may."""


class Raised(Exception):
    """The implementation raised something that is not a refusal."""

    def __init__(self, original: BaseException) -> None:
        super().__init__(f"{type(original).__name__}: {str(original).rstrip('.')}")
        self.original = original
