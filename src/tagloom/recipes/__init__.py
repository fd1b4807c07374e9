"""The recipes that ship with Tagloom; `tagloom recipes list` shows them."""
