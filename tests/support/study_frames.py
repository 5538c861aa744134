"""The rows of an evaluation or a frontier as a data frame, with the types of their files."""

from typing import Any

import pandas
import pyarrow

import unmask
from unmask.studies.evaluation import frontier, stored_rows


def rows_frame(result: unmask.Evaluation | unmask.Frontier) -> Any:
    """A column for each key of the rows; a number that is missing is NaN."""
    columns = stored_rows.COLUMNS
    if isinstance(result, unmask.Frontier):
        columns = frontier.COLUMNS
    table = pyarrow.Table.from_pylist(result.rows, pyarrow.schema([*columns.items()]))
    frame: pandas.DataFrame = table.to_pandas()
    return frame
