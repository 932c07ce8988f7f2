"""From a study to its Task: the integers that meet the target with least cost."""

from tinyldp.planning.choice import choose
from tinyldp.planning.outcome import Plan, text_plan
from tinyldp.planning.writing import plan

__all__ = ["Plan", "choose", "plan", "text_plan"]
