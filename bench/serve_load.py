"""How a server holds up: many clients on loopback, each sending one picture after the other.

    python bench/serve_load.py --clients 64 --seconds 120 --images FOLDER

The rival is the predictor alone (`Tagger.stream`), on the same pictures, on the same cores, in a process of its own,
before, between and after the parts of the load. Prints requests per second, their ratio to the predictor's pictures per
second, codes, latencies, and the memory of the server in its first tenth and at most. On a machine that does other
things too, compare the processor time per picture: it does not depend on who gets how many turns. Without --images,
scenes are drawn.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ratio import Ratio, of_rates

READY = re.compile(r"at http://127\.0\.0\.1:(\d+)/")

ALONE = """
import sys, time
from pathlib import Path
import tagloom
tagger = tagloom.load(sys.argv[1] or None)
pictures = [path.read_bytes() for path in map(Path, sys.argv[3:])]
list(tagger.stream(pictures))
begun, worked, done, seconds = time.perf_counter(), time.process_time(), 0, float(sys.argv[2])
while time.perf_counter() - begun < seconds:
    done += len(list(tagger.stream(pictures * 4)))
print(done / (time.perf_counter() - begun), (time.process_time() - worked) / done)
"""


@dataclass
class Outcome:
    """What the clients saw, and how much memory the server used."""

    codes: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    took: float = 0.0
    worked: float = 0.0
    memory: list[int] = field(default_factory=list)


def main() -> None:
    """Load a server, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="", help="a tagger folder (default: the ready tagger)")
    parser.add_argument("--images", type=Path, help="a folder of pictures (default: drawn scenes)")
    parser.add_argument("--count", type=int, default=128, help="pictures to send in turn")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--parts", type=int, default=2, help="of the load, with the predictor alone around each")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    paths = pictures(given.images, given.count)
    result = measure(given.run, paths, given.clients, given.seconds, given.parts)
    for name, value in result.items():
        print(f"{name:28} {value}")
    if given.json:
        given.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


def run(brief: bool = False) -> list[Ratio]:
    """Load a server of the ready tagger for a while, on drawn scenes."""
    clients = 8 if brief else 32
    result = measure("", pictures(None, 32), clients, seconds=2 if brief else 20)
    assert set(result["codes"]) == {"200"}, result["codes"]
    alone = statistics.median(result["predictor alone, per second"])
    what = f"`tagloom serve`, a picture per request, {clients} clients"
    return [of_rates(what, "`Tagger.stream` in a process, no server", result["requests per second"], alone)]


def measure(run: str, paths: list[Path], clients: int, seconds: float, parts: int = 2) -> dict[str, Any]:
    """Load a server in several parts, with the predictor alone before, between and after them."""
    alone_seconds = min(15.0, seconds / 4)
    server, port = start_server(run)
    outcome = Outcome()
    try:
        requests = [request(path.read_bytes(), port) for path in paths]
        asyncio.run(load(port, requests, clients, min(2.0, seconds / 4), Outcome(), server.pid))  # to warm it up
        alone = [predictor_alone(run, paths, alone_seconds)]
        for _ in range(parts):
            asyncio.run(load(port, requests, clients, seconds / parts, outcome, server.pid))
            alone.append(predictor_alone(run, paths, alone_seconds))
    finally:
        server.terminate()
        code = server.wait(60)
    early = max(outcome.memory[: max(1, len(outcome.memory) // 10)])
    requests_done = sum(outcome.codes.values())
    rate = requests_done / outcome.took
    alone_rate = statistics.median(pace for pace, _ in alone)
    alone_work = statistics.median(work for _, work in alone)
    return {
        "requests": requests_done,
        "codes": {str(code): count for code, count in sorted(outcome.codes.items())},
        "requests per second": round(rate, 1),
        "predictor alone, per second": [round(pace, 1) for pace, _ in alone],
        "ratio to its median": round(rate / alone_rate, 3),
        "processor time, ms": round(1000 * outcome.worked / requests_done, 2),
        "of the predictor alone, ms": round(1000 * alone_work, 2),
        "ratio of processor times": round(alone_work * requests_done / outcome.worked, 3),
        "median latency, s": round(statistics.median(outcome.seconds), 3),
        "99 % latency, s": round(sorted(outcome.seconds)[int(0.99 * len(outcome.seconds))], 3),
        "memory early, MB": round(early / 1e6, 1),
        "memory at most, MB": round(max(outcome.memory) / 1e6, 1),
        "memory grew by": f"{max(outcome.memory) / early - 1:.1%}",
        "server ended with": code,
    }


def pictures(folder: Path | None, count: int) -> list[Path]:
    """List pictures, or draw some."""
    if folder is not None:
        return sorted(path for path in folder.iterdir() if path.is_file())[:count]
    from tempfile import mkdtemp

    from tagloom.data.scenes import SceneSettings, draw_scene

    made = Path(mkdtemp(prefix="tagloom-load-"))
    for index in range(min(count, 32)):
        image, *_ = draw_scene(seed=0, index=index, settings=SceneSettings(size=256))
        image.save(made / f"{index}.jpg", quality=90)
    return sorted(made.iterdir())


def start_server(run: str) -> tuple[subprocess.Popen[str], int]:
    """Start a server on a free port of loopback."""
    command = [sys.executable, "-u", "-m", "tagloom", "serve", *([run] if run else []), "--port", "0", "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if found := READY.search(line.replace("\n", "")):
            return server, int(found[1])
    raise SystemExit("the server did not start")


def predictor_alone(run: str, paths: list[Path], seconds: float) -> tuple[float, float]:
    """Give the pictures per second of the predictor without a server, and its processor time for one."""
    command = [sys.executable, "-c", ALONE, run, str(seconds), *map(str, paths)]
    pace, work = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(pace), float(work)


def request(data: bytes, port: int) -> bytes:
    """Write a request."""
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: image/jpeg\r\nContent-Length: "
    return f"{head}{len(data)}\r\n\r\n".encode() + data


async def load(port: int, requests: list[bytes], clients: int, seconds: float, outcome: Outcome, server: int) -> None:
    """Let clients send requests until the time is over, and watch the memory of the server."""
    begun, worked = time.perf_counter(), processor_seconds(server)
    end = begun + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = number * 7
        while time.perf_counter() < end:
            sent = time.perf_counter()
            writer.write(requests[turn % len(requests)])
            turn += 1
            outcome.codes[await answer(reader)] += 1
            outcome.seconds.append(time.perf_counter() - sent)
        writer.close()

    async def watch() -> None:
        while time.perf_counter() < end:
            outcome.memory.append(resident(server))
            await asyncio.sleep(min(0.5, seconds / 8))

    await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    outcome.took += time.perf_counter() - begun
    outcome.worked += processor_seconds(server) - worked


async def answer(reader: asyncio.StreamReader) -> int:
    """Read an answer, and give its code."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    if length:
        await reader.readexactly(int(length[1]))
    return int(head.split(b" ", 2)[1])


def processor_seconds(process: int) -> float:
    """Give the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> int:
    """Give the memory of a process, in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * 4096


if __name__ == "__main__":
    main()
