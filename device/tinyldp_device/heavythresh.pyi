from collections.abc import Sequence

from tinyldp_device.thresh import Thresh

class HeavyThresh(Thresh):
    def compare(self, data: Sequence[int], at: int) -> None: ...
    def restart(self) -> None: ...
