"""Reports to estimates, each with its variance and confidence interval."""

from tinyldp.estimate.chances import support_chances
from tinyldp.estimate.frequency import Estimate, expected_variance, frequencies
from tinyldp.estimate.supports import supports

__all__ = ["Estimate", "expected_variance", "frequencies", "support_chances", "supports"]
