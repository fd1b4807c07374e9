"""What the formats share: text lines, label fields, sheets of rows and columns, class lists and image paths."""
