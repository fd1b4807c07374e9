"""A report on a tagger: one HTML file that opens offline."""

from tagloom.report.page.write import write_report

__all__ = ["write_report"]
