"""The page of a review, in a real browser and over a real process: twenty photos by keyboard, a kill, a retraining."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import chromium, screenshot
from serving import Client, wait_until

pytest.importorskip("torch", reason="retraining needs the extra train")
AXE_PAGES = [("light", 1280), ("dark", 390)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A tab. Whatever the browser complains about in its console is a fault, but for a server that was killed."""
    faults: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
    yield page
    context.close()
    assert [fault for fault in faults if "ERR_CONNECTION_REFUSED" not in fault] == []


@contextmanager
def reviewing(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """Run the command; gives the process and a client."""
    command = [sys.executable, "-u", "-m", "tagloom", "review", *map(str, arguments), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"at http://[\w.]+:(\d+)/", line)
        assert found, line + (process.stderr.read() if process.stderr and not line else "")
        yield process, Client(int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def shown(page: Any) -> str:
    return page.locator("#name").text_content()


def until_changed(page: Any, before: str) -> None:
    wait_until(lambda: shown(page) != before)


@pytest.fixture(scope="module")
def photos(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty photos without labels."""
    folder = tmp_path_factory.mktemp("photos")
    table = (scenes / "train.csv").read_text().splitlines()[1:31]
    for line in table:
        image = scenes / line.split(",")[0]
        (folder / image.name).write_bytes(image.read_bytes())
    return folder


@pytest.mark.slow
def test_twenty_photos_by_keyboard_survive_a_kill_and_make_better_suggestions(
    page, photos, untrained_run, feature_cache, tmp_path
):
    out = tmp_path / "review"
    command = (untrained_run, photos, "--out", out, "--cache", feature_cache)
    with reviewing(*command) as (process, client):
        page.goto(client.url)
        page.wait_for_selector("#labels .tag")
        first = shown(page)
        label = page.locator("#labels .tag").first.get_attribute("data-label")
        before = page.locator("#labels .tag").first.get_attribute("aria-pressed")
        page.keyboard.press("1")
        assert page.locator("#labels .tag").first.get_attribute("aria-pressed") != before
        page.keyboard.press("Shift+Digit2")
        unsure = page.locator("#labels .tag").nth(1).get_attribute("data-label")
        screenshot(page, "review-one")
        page.keyboard.press("Enter")
        until_changed(page, first)
        wait_until(lambda: (out / "answers.jsonl").exists() and len(lines(out)) == 1)
        noted = lines(out)[0]
        assert noted["image"] == first
        assert (label in noted["yes"]) == (before == "false")
        assert noted["unsure"] == [unsure]

        page.keyboard.press("u")
        wait_until(lambda: shown(page) == first)
        assert page.locator("#labels .tag").first.get_attribute("aria-pressed") != before, "as it was left"
        assert lines(out)[-1] == {"undo": first}

        page.keyboard.press("/")
        page.keyboard.type("lighthouse")
        page.keyboard.press("Enter")
        page.locator('#labels [data-label="lighthouse"][aria-pressed="true"]').wait_for()
        for _ in range(20):
            before_answer = shown(page)
            page.keyboard.press("Enter")
            until_changed(page, before_answer)
        page.get_by_text("20 of 30 reviewed").wait_for()
        process.send_signal(signal.SIGKILL)
        process.wait()
    answers = {line["image"]: line["yes"] for line in lines(out) if "yes" in line}
    assert len(answers) == 20
    with (out / "answers.jsonl").open("a") as file:
        file.write('{"image": "half a li')  # as a power cut leaves it

    with reviewing(*command) as (_, client):
        page.goto(client.url)
        page.get_by_text("20 of 30 reviewed").wait_for()
        assert shown(page) not in answers
        told = client.get("/v1/review/next?count=60").json["photos"]
        page.keyboard.press("r")
        page.get_by_text("Learned from 20 answers").wait_for(timeout=120_000)
        screenshot(page, "review-retrained")
        after = client.get("/v1/review/next?count=60").json["photos"]
        scores = [{label["label"]: label["score"] for label in card["labels"]} for card in after]
        assert {card["row"] for card in told} == {card["row"] for card in after}
        old = {card["row"]: {label["label"]: label["score"] for label in card["labels"]} for card in told}
        assert any(old[card["row"]] != new for card, new in zip(after, scores, strict=True)), "suggestions changed"
        assert all(new["lighthouse"] is not None for new in scores), "the new label is suggested too"
        page.get_by_role("button", name="Export").click()
        page.get_by_role("button", name="Labels labels.csv").click()
        page.get_by_text("Labels written to").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.get_by_text("21 of 30 reviewed").wait_for()
        screenshot(page, "review-grid")
        page.keyboard.press("a")
        page.get_by_text("All photos are reviewed.").wait_for()
        page.get_by_text("30 of 30 reviewed").wait_for()
    with reviewing(*command) as (_, client):
        wait_until(lambda: client.get("/v1/review").json["retraining"]["round"] == 1)
    from tagloom.data import load_table

    table = load_table(out / "labels.csv")
    known = table.known(range(len(table)))
    assert known.any(1).sum() == 20, "what nobody answered stays unknown"
    assert known.all(1).sum() == 19, "and so does what somebody was unsure of"


@pytest.mark.parametrize(("scheme", "width"), AXE_PAGES)
def test_axe_finds_nothing_serious(browser, photos, untrained_run, tmp_path, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    with reviewing(untrained_run, photos, "--out", tmp_path) as (_, client):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True)
        page = context.new_page()
        page.goto(client.url)
        page.wait_for_selector("#labels .tag")
        page.keyboard.press("Shift+Digit1")
        found = [axe.Axe().run(page).response["violations"]]
        screenshot(page, f"review-{scheme}-{width}")
        page.keyboard.press("g")
        page.wait_for_selector(".tile")
        page.keyboard.press("Enter")
        page.get_by_text("1 of 30 reviewed").wait_for()
        found.append(axe.Axe().run(page).response["violations"])
        screenshot(page, f"review-grid-{scheme}-{width}")
        page.get_by_role("button", name="Export").click()
        found.append(axe.Axe().run(page).response["violations"])
        faults = [(fault["id"], [node["html"][:120] for node in fault["nodes"]]) for each in found for fault in each]
        assert faults == [], "no rule is broken, whatever its weight"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"
        context.close()
