"""Taggers over HTTP: a page to try them, and an API to call. Needs the extra `serve`."""
