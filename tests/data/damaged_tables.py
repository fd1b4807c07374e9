"""Reads many damaged tables and prints what happened. A process of its own, so that its memory can be measured.

python tests/data/damaged_tables.py CSV 5000
"""

import io
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from mutations import mutate

from tagloom.data import load_table
from tagloom.errors import DataError

LONGEST_MESSAGE = 2000


def main(kind: str, rounds: int) -> None:
    """Damage and read; print one line of JSON. Anything but a `DataError` ends the process with a traceback."""
    rng = random.Random(f"{kind} {rounds}")
    with tempfile.TemporaryDirectory() as folder:
        table, file, whole = tables(kind, Path(folder))
        for data in whole:
            file.write_bytes(data)
            load_table(table).fingerprint()
        before, results, slowest = peak_memory(), Counter(), 0.0
        for _ in range(rounds):
            data = mutate(rng.choice(whole), whole, rng)
            file.write_bytes(data)
            started = time.monotonic()
            results[outcome(table, data)] += 1
            slowest = max(slowest, time.monotonic() - started)
    print(json.dumps({"results": results, "slowest": slowest, "memory": peak_memory() - before}))


def outcome(table: Path, data: bytes) -> str:
    """Read one table: "read", or "refused" by a short message that begins with the file's name."""
    try:
        load_table(table).fingerprint()
    except DataError as error:
        message = str(error)
    except BaseException:  # noqa: BLE001  whatever it is, it is not ours
        traceback.print_exc()
        sys.exit(f"an error that is not ours, for {data!r}")
    else:
        return "read"
    if not message.startswith(str(table)) or len(message) > LONGEST_MESSAGE:
        sys.exit(f"a bad message: {message[:3000]} for {data!r}")
    return "refused"


def tables(kind: str, folder: Path) -> tuple[Path, Path, list[bytes]]:
    """Give what to load, the file in it to damage, and whole contents of that file."""
    if kind == "CSV":
        return folder / "t.csv", folder / "t.csv", [text.encode() for text in _CSV]
    if kind == "JSON lines":
        return folder / "t.jsonl", folder / "t.jsonl", [text.encode() for text in _JSON_LINES]
    if kind == "COCO":
        (folder / "a.jpg").touch()
        return folder / "t.json", folder / "t.json", [json.dumps(_COCO).encode()]
    if kind == "VOC":
        for name in ("JPEGImages", "Annotations"):
            (folder / "VOC2007" / name).mkdir(parents=True)
        return folder / "VOC2007", folder / "VOC2007" / "Annotations" / "1.xml", [text.encode() for text in _XML]
    if kind == "Parquet":
        return folder / "t.parquet", folder / "t.parquet", _parquet_files()
    lists, labels = folder / "ImageList", folder / "AllLabels"
    lists.mkdir()
    labels.mkdir()
    (folder / "images").mkdir()
    (folder / "images" / "1.jpg").touch()
    (lists / "Imagelist.txt").write_text("1.jpg\na\\2.jpg\n3.jpg\n")
    (labels / "Labels_sky.txt").write_text("1\n0\n1\n")
    return folder, labels / "Labels_sea.txt", [b"1\n0\n1\n", b"\xef\xbb\xbf0\r\n1\r\n1\r\n"]


def peak_memory() -> int:
    """Megabytes."""
    # Not ru_maxrss: in a child that still counts the process it was forked from.
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def _parquet_files() -> list[bytes]:
    import pyarrow as arrow
    from pyarrow.parquet import write_table

    images = [f"{number}.jpg" for number in range(40)]
    contents = [
        {"image": images, "labels": ["cat|dog", "cat"] * 20},
        {"image": images, "labels": [["cat", "dog"], []] * 20, "when": arrow.array(range(40), arrow.timestamp("ns"))},
        {"image": images, "cat": [1, 0] * 20, "dog": [None, 1] * 20, "sea": [True, False] * 20},
        {"path": images, "picture": [{"bytes": b"...", "path": name} for name in images], "labels": ["cat"] * 40},
        {"image": arrow.array(images).dictionary_encode(), "labels": arrow.array(["cat", "sea"] * 20)},
    ]
    files = []
    for index, content in enumerate(contents):
        stream = io.BytesIO()
        compression = ("none", "snappy", "gzip", "zstd", "none")[index]
        write_table(arrow.table(content), stream, compression=compression, row_group_size=16)
        files.append(stream.getvalue())
    return files


_CSV = (
    'image,labels\na.jpg,cat|dog\nb.jpg,\n"c, d.jpg","sea|""big"" dog"\n',
    "image;cat;dog\na.jpg;1;0\nb.jpg;-1;\nc.jpg;0;1\n",
    "file_name\tlabels\tnote\r\na.jpg\t['cat', \"dog\"]\tx\r\nb.jpg\t[]\ty\r\n",
    'image,labels\na.jpg,"dining table" dog\nb.jpg,"cat"\n',
    "\ufeffimage,tags\nä.jpg,Käse;Brot\nb.jpg,Brot\n",
    'filepath,label,split_name\nimages/1.jpg,"[sky, water]",train\nimages/2.jpg,"[sky]",test\n',
)
_JSON_LINES = (
    '{"file_name": "a.jpg", "labels": ["cat", "dog"]}\n{"file_name": "b.jpg", "labels": []}\n',
    '{"image": "a.jpg", "labels": "cat|dog"}\n\n{"image": "b.jpg", "labels": null, "n": 1.5e3}\n',
    '{"image": "a.jpg", "cat": 1, "dog": 0}\n{"image": "b.jpg", "cat": -1}\n{"image": "\\u00e4.jpg", "sea": true}\n',
)
_COCO = {
    "info": {"year": 2017},
    "images": [{"id": 1, "file_name": "a.jpg", "width": 5}, {"id": 2, "file_name": "b.jpg"}],
    "annotations": [
        {"image_id": 1, "category_id": 3, "bbox": [0, 1.5, 2, 3]},
        {"image_id": 2, "category_id": 4},
        {"image_id": 2, "category_id": 3, "iscrowd": 1},
    ],
    "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "dining table", "supercategory": "sitting"}],
}
_XML = (
    "<annotation><filename>1.jpg</filename><object><name>cat</name><difficult>0</difficult><bndbox><xmin>1</xmin>"
    "</bndbox></object><object><name>dining table</name><difficult>1</difficult></object></annotation>",
    '<?xml version="1.0" encoding="UTF-8"?>\n<annotation verified="no">\n<!-- by hand -->\n<object>\n'
    "<name>d&#246;g &amp; cat</name>\n</object>\n<object><name><![CDATA[a <b>]]></name></object>\n</annotation>\n",
)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
