"""The released symbols as CSV, for people who want to look at them with tools of their own."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tinyldp.errors import UserError
from tinyldp.report.data import is_stream

if TYPE_CHECKING:
    from tinyldp.collect.store import Store


def write_csv(store: Store, folder: str | Path) -> tuple[list[Path], list[str]]:
    """Write one file for each stream, PSEUDONYM-NONCE.csv.

    Gives their paths, and a sentence for each stream that claims the impossible
    and is left out.

    The columns are step (0-based, in the order of release) and symbol (empty when
    its frame is lost or not here yet); of oracles, step and report: GRR's value, of
    OUE and OLH the bytes in hexadecimal. The folder is made if there is none.
    Raises UserError when it cannot be written.
    """
    folder = Path(folder)
    paths = []
    left_out = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stream in store.streams():
            # A store that comes from elsewhere must not choose other folders.
            name = re.sub("[^0-9A-Za-z]", "_", stream.pseudonym) + "-"
            name += re.sub("[^0-9A-Za-z]", "_", stream.nonce)
            path = folder / f"{name}.csv"
            try:
                symbols, present = store.values(stream.boot)
            except UserError as error:
                left_out.append(str(error))
                continue
            with path.open("w", encoding="ascii", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                oracle = not is_stream(store.task(stream.task_id))
                writer.writerow(("step", "report" if oracle else "symbol"))
                said = (
                    [bytes(row).hex() for row in symbols] if symbols.ndim > 1 else symbols.tolist()
                )
                pairs = zip(said, present.tolist(), strict=True)
                writer.writerows((i, n if here else "") for i, (n, here) in enumerate(pairs))
            paths.append(path)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    return paths, left_out
