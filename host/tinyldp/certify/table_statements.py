"""What the certificate of a table says in words."""

from __future__ import annotations

from tinyldp.certify.bounds import digits_up, log_upper
from tinyldp.certify.crr_table import TableFigures
from tinyldp.figures import counted

TABLE_DEFINITION = (
    "For every set O of blocks that may be released next, whatever was released before,"
    " Pr[Y in O | X = x] <= e^epsilon Pr[Y in O] + delta and"
    " Pr[Y in O] <= e^epsilon Pr[Y in O | X = x] + delta, with the law of Y by the exact belief of"
    " whoever knows the model and all that was released (sequence information privacy, of one"
    " release)."
)
TABLE_BOOT = (
    "The device holds no belief, and the same table is right for every one: each boot is like any"
    " other block, of a series that went on meanwhile, or one that starts from the prior."
)
TABLE_INCOMPLETE = (
    "The steps of an incomplete last block of a segment are never released; that there were some,"
    " and how many, depends on no value."
)
TABLE_PLANNED = (
    "The table was made by the planner, of the model alone, and is part of the Task, which"
    " everyone may see. The device checks its columns, and refuses one that tells more than twice"
    " epsilon between two blocks; that it keeps to epsilon under the model, this certificate"
    " checked, and no device does."
)


def table_method(vertices: int, memory: int) -> str:
    late = ""
    if memory > 1:
        late = f" (also if a boot makes it start up to {counted(memory - 1, 'step')} late)"
    return (
        f"Exact, in integers of the Task: of all blocks, for the law of the first one{late} and"
        f" that after each state of the chain, {vertices} in all. Every belief is a mixture of"
        " these, and the bounds are linear in it; so nothing is sampled, and nothing drifts."
    )


def table_lifetime(w: int | None, block: int) -> str:
    text = (
        "epsilon is of one block; what blocks tell adds up, so over a lifetime there is no bound."
        " What is released about the same readings by other mechanisms adds to it."
    )
    if w is None:
        return text
    return (
        f"Any {counted(w, 'consecutive step')}, with boots between them or not, tell up to the line"
        f" 'in {counted(w, 'step')}' together, for the blocks of {block} that they touch. {text}"
    )


def table_lines(found: TableFigures) -> list[tuple[str, str]]:
    """Labels, and what stands beside them, but for delta: text.py has that for all of CRR."""
    seen = "some blocks are released of others alone"
    if found.factor:
        seen = f"at most {digits_up(log_upper(found.factor))} anywhere"
    if found.fault is not None:
        seen = f"NOT KEPT: {found.fault}"
    lines = [
        (
            "table",
            f"{found.blocks} blocks of {found.block} steps, of which {found.released} can be"
            f" released, {found.table_bytes:,} bytes as a device draws from it",
        ),
        ("exact belief", f"{found.vertices} laws of a block, and all mixtures of them: {seen}"),
        ("wrong model", f"epsilon {digits_up(found.fallback)} each, between any two blocks"),
    ]
    if found.releases is not None and found.w is not None:
        lines.append(
            (f"{counted(found.w, 'step')}", f"touch up to {counted(found.releases, 'block')}")
        )
    return lines
