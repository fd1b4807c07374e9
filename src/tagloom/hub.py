"""Names of repositories on the Hugging Face hub: hf-hub:owner/name, or hf-hub:owner/name@revision."""

import re

from tagloom.errors import TaggerError
from tagloom.wording import shown

HUB_PREFIX = "hf-hub:"
_NAME = re.compile(r"(?P<repository>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[\w./-]+))?", re.ASCII)


def split_hub_name(name: str) -> tuple[str, str | None]:
    """Give the repository and the revision, a commit, tag or branch; None for the newest.

    Only a commit is certain to stay what it is: a branch or a tag can be moved.

    >>> split_hub_name("hf-hub:owner/name@v1.0"), split_hub_name("hf-hub:owner/name")
    (('owner/name', 'v1.0'), ('owner/name', None))
    """
    found = _NAME.fullmatch(name.removeprefix(HUB_PREFIX))
    if found is None or not name.startswith(HUB_PREFIX):
        raise TaggerError(
            f"{shown(name)} is no name on the hub: write hf-hub:owner/name or hf-hub:owner/name@revision."
        )
    return found["repository"], found["revision"]
