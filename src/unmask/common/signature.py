"""Names of `common.border`, for modules that are not rewritten yet."""

from unmask.common.border.calls import Function as Function
from unmask.common.border.calls import checked as checked
from unmask.common.border.calls import settings as settings
from unmask.common.border.declarations import description as description
from unmask.common.border.declarations import documentation as documentation
from unmask.common.border.declarations import hints as hints
from unmask.common.border.declarations import summary as summary
from unmask.common.border.marks import PYTHON_ONLY as PYTHON_ONLY
from unmask.common.border.marks import Loaded as Loaded
from unmask.common.border.marks import Method as Method
from unmask.common.border.marks import Only as Only
from unmask.common.border.marks import Written as Written
from unmask.common.border.marks import group_of as group_of
from unmask.common.border.marks import kinds as kinds
from unmask.common.border.marks import mark as mark
from unmask.common.border.marks import marks as marks
from unmask.common.border.marks import resolved as resolved
from unmask.common.border.names import nearest as nearest
from unmask.common.border.options import HIDDEN as HIDDEN
from unmask.common.border.options import Option as Option
from unmask.common.border.options import arguments as arguments
from unmask.common.border.options import options as options
from unmask.common.border.options import unknown_argument as unknown_argument
