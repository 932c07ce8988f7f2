from tinyldp_device.state import State

class Identity:
    pseudonym: bytes
    boots: int
    ended: bool
    def __init__(self, state: State) -> None: ...

def provision(state: State, pseudonym: bytes) -> None: ...
