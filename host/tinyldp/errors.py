"""What goes wrong because of what a person gave us."""


class UserError(Exception):
    """Bad input: its argument is the one sentence that a person is shown."""
