"""The same oracles in pure-ldp and multi-freq-ldpy, in the fastest form that each offers.

Installed for the benchmark only (the extra "bench"). For each oracle, `clients` gives
what randomizes a list of values, `aggregators` what counts a list of reports, together
with reports for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multi_freq_ldpy.pure_frequency_oracles import (  # pyright: ignore[reportMissingImports]
    GRR as multi_grr,
)
from multi_freq_ldpy.pure_frequency_oracles import (  # pyright: ignore[reportMissingImports]
    LH as multi_lh,
)
from multi_freq_ldpy.pure_frequency_oracles import (  # pyright: ignore[reportMissingImports]
    UE as multi_ue,
)
from pure_ldp.frequency_oracles.direct_encoding import (  # pyright: ignore[reportMissingImports]
    DEClient,
    DEServer,
)
from pure_ldp.frequency_oracles.local_hashing import (  # pyright: ignore[reportMissingImports]
    LHClient,
    LHServer,
)
from pure_ldp.frequency_oracles.unary_encoding import (  # pyright: ignore[reportMissingImports]
    UEClient,
    UEServer,
)

from tinyldp_protocol.task import GRR, OLH, OUE

EPSILON = 1.0
Work = Callable[[], object]


def _same(value: int) -> int:
    return value


def _each(privatise: Callable[..., Any], values: list[int], *more: Any) -> Callable[[], list[Any]]:
    return lambda: [privatise(value, *more) for value in values]


def _pure(mechanism: int, symbols: int) -> tuple[Any, Any]:
    client, server, options = {
        GRR: (DEClient, DEServer, {}),
        OUE: (UEClient, UEServer, {"use_oue": True}),
        OLH: (LHClient, LHServer, {"use_olh": True}),
    }[mechanism]
    options = {**options, "index_mapper": _same}
    return client(EPSILON, symbols, **options), server(EPSILON, symbols, **options)


def clients(mechanism: int, symbols: int, values: list[int]) -> dict[str, Callable[[], list[Any]]]:
    """By package: randomize all values, and give the reports."""
    multi, more = {
        GRR: (multi_grr.GRR_Client, ()),
        OUE: (multi_ue.UE_Client, (True,)),
        OLH: (multi_lh.LH_Client, (True,)),
    }[mechanism]
    return {
        "pure-ldp": _each(_pure(mechanism, symbols)[0].privatise, values),
        "multi-freq-ldpy": _each(multi, values, symbols, EPSILON, *more),
    }


def aggregators(mechanism: int, symbols: int, values: list[int]) -> dict[str, Work]:
    """By package: count the reports of all values."""
    reports = {package: work() for package, work in clients(mechanism, symbols, values).items()}
    server = _pure(mechanism, symbols)[1]

    def pure() -> None:
        for report in reports["pure-ldp"]:
            server.aggregate(report)

    own = reports["multi-freq-ldpy"]
    multi = {
        GRR: lambda: multi_grr.GRR_Aggregator_MI(own, symbols, EPSILON),
        OUE: lambda: multi_ue.UE_Aggregator_MI(own, EPSILON, True),
        OLH: lambda: multi_lh.LH_Aggregator_MI(own, symbols, EPSILON, True),
    }[mechanism]
    return {"pure-ldp": pure, "multi-freq-ldpy": multi}
