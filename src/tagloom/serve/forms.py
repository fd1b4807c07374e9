"""The files of a form (multipart/form-data), from bytes of which every length is known already."""

from typing import NamedTuple

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from tagloom.serve.limits import Refusal

MAX_NAME = 1024


class Upload(NamedTuple):
    """A picture as it was sent: the name that the client gives it, if any, and its bytes."""

    name: str | None
    data: bytes


class _Part:
    """A part of a form while it is read."""

    def __init__(self) -> None:
        self.header = bytearray()  # the name of the header that is being read
        self.value = bytearray()
        self.disposition = b""
        self.content = bytearray()

    def end_header(self) -> None:
        if self.header.lower() == b"content-disposition":
            self.disposition = bytes(self.value)
        self.header.clear()
        self.value.clear()

    def upload(self) -> Upload:
        _, options = parse_options_header(self.disposition)
        name = options.get(b"filename")
        return Upload(None if name is None else name.decode("utf-8", "replace")[:MAX_NAME], bytes(self.content))


def form_files(data: bytes, boundary: bytes, most: int) -> list[Upload]:
    """Give the files of a form, in order. Fields that are no files are left out.

    Raises:
        Refusal: 400 if the form is damaged or not complete, 413 if it has more parts than `most`.
    """
    parts: list[_Part] = []
    ended = False

    def begin() -> None:
        if len(parts) >= most:
            raise Refusal(413, f"the form has more than {most} pictures. Send them in several requests.")
        parts.append(_Part())

    def end() -> None:
        nonlocal ended
        ended = True

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": lambda piece, start, stop: parts[-1].header.extend(piece[start:stop]),
                "on_header_value": lambda piece, start, stop: parts[-1].value.extend(piece[start:stop]),
                "on_header_end": lambda: parts[-1].end_header(),
                "on_part_data": lambda piece, start, stop: parts[-1].content.extend(memoryview(piece)[start:stop]),
                "on_end": end,
            },
        )
        parser.write(data)
    except FormParserError as error:
        raise Refusal(400, f"the form is damaged: {str(error)[:200]}") from None
    if not ended:
        raise Refusal(400, "the form ends before its last boundary. Send it again.")
    return [upload for upload in (part.upload() for part in parts) if upload.name is not None]
