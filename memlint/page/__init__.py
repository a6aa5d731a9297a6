"""The report as one web page: what wastes memory where, what each fix saves, what fits.

``shown_runs`` reads the runs, ``slider_grid`` computes them around their own batch, ``run_parts``
and ``finding_parts`` write their parts of the page, ``whole_page`` puts these into
``template.html`` with its style and its script. Whatever comes from a user's file is escaped where
it is written.
"""

from memlint.page.whole_page import page, page_of_runs

__all__ = ["page", "page_of_runs"]
