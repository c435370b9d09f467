"""The exceptions for what a user can get wrong."""


class UserError(ValueError):
    """A fault in a file, a tensor or an option, told in one line.

    Parameters
    ----------
    where : object
        The file, tensor or option at fault.
    what : str
        What is wrong with it.
    expected, found : object, optional
        What should have been there and what was.
    """

    def __init__(self, where: object, what: str, *, expected: object = None, found: object = None):
        details = [f"expected {expected}"] if expected is not None else []
        details += [f"found {found}"] if found is not None else []
        message = f"{where}: {what}" + (f" ({', '.join(details)})" if details else "")
        super().__init__(" ".join(message.split()))


class UsageError(UserError):
    """An option or a parameter file is wrong, rather than a file that it names."""
