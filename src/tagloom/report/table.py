"""What all tables in the terminal share: titles on the left, numbers on the right, harmless names."""

from rich.table import Table
from rich.text import Text

from tagloom.wording import printable


def make_table(title: str, *columns: str, caption: str | None = None) -> Table:
    """Make a table without rows.

    Args:
        title: Printed above the table.
        columns: Headings. One that begins with ">" has numbers below it, which are aligned on the right.
        caption: Printed below the table.
    """
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for column in columns:
        if column.startswith(">"):
            table.add_column(column[1:], justify="right")
        else:
            table.add_column(column, overflow="fold")
    return table


def as_text(name: str, style: str = "") -> Text:
    """Give a name from somebody's files as it may be printed: no markup, nothing that moves the cursor."""
    return Text(printable(name), style)
