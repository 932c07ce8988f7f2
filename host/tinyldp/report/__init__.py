"""What was collected, for people: as data, as text, as a page with pictures, as CSV.

The first three show the same numbers, which come from report_data.
"""

from tinyldp.report.csv_files import write_csv
from tinyldp.report.data import report_data
from tinyldp.report.page import render_report
from tinyldp.report.text import text_report

__all__ = ["render_report", "report_data", "text_report", "write_csv"]
