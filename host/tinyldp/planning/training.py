"""What a study's model is learned from, and what `plan` says of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tinyldp.crr.model import state_name, state_symbols
from tinyldp.crr.training import RARE, Training, trained_model
from tinyldp.figures import counted
from tinyldp.study import Study

# Symbols, or rows, that a sentence names.
_NAMED = 8


def trained_study(study: Study) -> tuple[Study, Training | None]:
    """The study with the model that its training series make, or as it is.

    A missing reading is learned as what the device sends for it: the study's symbol for
    missing, or without one the lowest. Raises UserError, one sentence, for series that can't be
    read or say too little.
    """
    settings = study.crr
    if settings is None or settings.model is not None:
        return study, None
    model, training = trained_model(
        settings.train,
        study.bins,
        study.missing or 0,
        study.domain,
        settings.memory or 1,
        settings.smoothing,
    )
    return replace(study, crr=replace(settings, model=model)), training


def training_json(training: Training) -> dict[str, Any]:
    """rare_rows: the symbols that fewer than 10 transitions were counted after, and how many."""
    symbols, memory = len(training.seen), training.memory
    return {
        "files": list(training.files),
        "series": training.series,
        "readings": training.readings,
        "gaps": training.gaps,
        "gap_symbol": training.gap,
        "transitions": training.transitions,
        "unseen_symbols": training.unseen,
        "rare_rows": [
            {"after": state_symbols(state, symbols, memory), "seen": training.followed[state]}
            for state in training.rare
        ],
        "warnings": training_warnings(training),
    }


def training_line(training: Training) -> str:
    """What was counted, and what became of gaps, for people."""
    gaps = "none of them missing"
    if training.gaps:
        gaps = (
            f"{training.gaps:,} of them missing and counted as symbol {training.gap}, as a device "
            "sends them"
        )
    return (
        f"Trained: {counted(len(training.files), 'file')}, "
        f"{counted(training.series, 'series', 'series')}, {counted(training.readings, 'reading')} "
        f"({gaps}), {counted(training.transitions, 'transition')} from one to the next."
    )


def training_warnings(training: Training) -> list[str]:
    """A sentence on what was hardly seen, if there is any."""
    symbols, memory = len(training.seen), training.memory
    parts = []
    if training.unseen:
        unseen = [str(symbol) for symbol in training.unseen]
        parts.append(f"never show {'symbol' if len(unseen) == 1 else 'symbols'} {_listed(unseen)}")
    if training.rare:
        if memory == 1:
            named = [str(state) for state in training.rare]
            after = f"{'symbol' if len(named) == 1 else 'symbols'} {_listed(named)}"
        elif len(training.rare) == 1:
            after = state_name(training.rare[0], symbols, memory)
        else:
            after = (
                f"{len(training.rare):,} of the {len(training.followed):,} runs of {memory} symbols"
            )
        parts.append(f"show fewer than {RARE} transitions after {after}")
    if not parts:
        return []
    return [
        f"The training series {', and '.join(parts)}: what the model says of these is mostly "
        "smoothing, or chance."
    ]


def _listed(names: list[str]) -> str:
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} others"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
