"""Reports to estimates, each with its variance and confidence interval."""

from tinyldp.estimate.chances import support_chances
from tinyldp.estimate.frequency import Estimate, expected_variance, frequencies, report_variance
from tinyldp.estimate.supports import check_reports, supports

__all__ = [
    "Estimate",
    "check_reports",
    "expected_variance",
    "frequencies",
    "report_variance",
    "support_chances",
    "supports",
]
