"""Storage slots on any file system: whole-file rewrites, no rename, no append."""


class FileSlot:
    """One slot of state.State: a file of its own."""

    def __init__(self, name):
        self._name = name

    def read(self):
        try:
            file = open(self._name, "rb")
        except OSError:
            return b""
        data = file.read()
        file.close()
        return data

    def write(self, data):
        file = open(self._name, "wb")
        file.write(data)
        file.close()


def ledger_slots():
    """Where a board keeps what it has spent."""
    return FileSlot("tinyldp/ledger0"), FileSlot("tinyldp/ledger1")


def lifetime_slots():
    """Where a board keeps what it may still say in its life."""
    return FileSlot("tinyldp/lifetime0"), FileSlot("tinyldp/lifetime1")
