from tinyldp_device.state import State

class Identity:
    pseudonym: bytes
    boots: int
    ended: bool
    def __init__(self, state: State) -> None: ...

class RoundIdentity(Identity):
    cap: int | None
    horizon: int | None

class LifeIdentity(Identity):
    allowance: int | None

def allowances(cap: int | None, horizon: int | None, lifetime: int | None = None) -> bytes: ...
def provision(
    state: State,
    pseudonym: bytes,
    cap: int | None = None,
    horizon: int | None = None,
    lifetime: int | None = None,
) -> None: ...
