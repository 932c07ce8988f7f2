"""Study files for the planner's tests."""

from pathlib import Path

from tinyldp.study import Study, load_study

STREAMS = ("ranswitch", "staswitch", "jittersort")


def study_text(
    name: str, privacy: str, mechanism: str = "", domain: int = 16, rest: str = ""
) -> str:
    return (
        f'[study]\nname = "s"\n[mechanism]\nname = "{name}"\n{mechanism}\n'
        f"[privacy]\n{privacy}\n[values]\ndomain = {domain}\n{rest}\n"
    )


def write_study(folder: Path, *arguments: object, **named: object) -> Path:
    path = folder / "s.toml"
    path.write_text(study_text(*arguments, **named))  # pyright: ignore[reportArgumentType]
    return path


def make_study(folder: Path, *arguments: object, **named: object) -> Study:
    return load_study(write_study(folder, *arguments, **named))
