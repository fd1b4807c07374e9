"""The page, in a real browser: what a person does with a pointer, a keyboard, a phone and a screen reader."""

import base64
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import DROP, HEAT, PASTE, chromium, screenshot
from serving import Client, encoded, serving

from tagloom.data import load_table
from tagloom.predict.tagger import Tagger
from tagloom.recipe.pictures import Preprocess
from tagloom.serve.guard import Access
from tagloom.tagger.spec import TaggerSpec

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Any, client: Client) -> Iterator[Any]:
    """Open the page. Whatever the browser complains about in its console is a fault, and so is a broken policy."""
    contexts, faults = [], []

    def opened(url: str = client.url, allowed: str = "^$", **options: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda line: (
                faults.append(line.text) if line.type == "error" and not re.search(allowed, line.text) else None
            ),
        )
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def given(data: bytes, name: str = "photo.jpg") -> list[str]:
    return [name, base64.b64encode(data).decode()]


def drop(page: Any, data: bytes, name: str = "photo.jpg") -> None:
    page.wait_for_selector(".panel", state="attached")
    page.evaluate(DROP, [given(data, name)])
    page.wait_for_selector(".panel:not(.waiting) .rest .tag, .panel:not(.waiting) .tags .tag", state="attached")


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true. Playwright's own way of waiting needs eval, which the page's policy forbids."""
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def tags(page: Any, panel: int = 0) -> list[str]:
    return page.locator(".panel").nth(panel).locator(".tags:not(.rest) .name").all_text_contents()


def names(found: Any) -> list[str]:
    return [tag.label for tag in found]


def test_a_dropped_picture_gets_the_tags_of_every_tagger_side_by_side(open_page, tiny, worded, jpeg):
    page = open_page()
    drop(page, jpeg)
    assert tags(page, 0) == names(tiny.predict(jpeg)[0])
    assert tags(page, 1) == names(worded.predict(jpeg)[0])
    left, right = (page.locator(".panel").nth(index).bounding_box() for index in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    assert page.locator("#picture").evaluate("image => image.naturalWidth") == 48
    screenshot(page, "two-taggers")
    page.get_by_role("checkbox", name="words").uncheck()
    assert page.locator(".panel").count() == 1


def test_pointing_at_a_tag_shows_where_it_comes_from(open_page, jpeg):
    page = open_page()
    drop(page, jpeg)
    panel = page.locator(".panel").nth(1)
    panel.get_by_text("Less likely labels").click()
    first, second = (panel.locator(".tag").nth(index) for index in (0, 1))
    assert page.evaluate(HEAT) == 0
    first.hover()
    until(page, f"({HEAT})() !== 0")
    shown = page.evaluate(HEAT)
    label = first.get_attribute("data-label")
    assert page.locator("#caption").text_content() == f"Where {label} comes from (attention)"
    second.hover()
    until(page, f"({HEAT})() !== 0 && ({HEAT})() !== {shown}")
    page.mouse.move(2, 2)
    until(page, f"({HEAT})() === 0")
    first.click()
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")
    until(page, f"({HEAT})() === {shown}")
    assert first.get_attribute("aria-pressed") == "true"
    picture, heat = (page.locator(name).bounding_box() for name in ("#picture", "#heat"))
    assert picture == pytest.approx(heat, abs=1), "the map lies exactly over the picture"


def test_the_slider_moves_the_threshold_of_all_labels(open_page, tiny, jpeg):
    page = open_page()
    drop(page, jpeg)
    slider = page.get_by_label("Threshold", exact=True)
    slider.fill("0")
    assert tags(page) == names(tiny.predict(jpeg, threshold=0.0)[0])
    slider.fill("100")
    assert tags(page) == []
    assert page.get_by_text("No label is above its threshold.").first.is_visible()
    slider.fill("40")
    assert page.locator("#threshold-value").text_content() == "0.40"
    assert tags(page) == names(tiny.predict(jpeg, threshold=0.4)[0])
    page.get_by_role("button", name="Use each label’s own").click()
    assert tags(page) == names(tiny.predict(jpeg)[0])


def test_a_typed_label_is_scored_by_the_tagger_of_words_only(open_page, worded, jpeg):
    page = open_page(allowed="422")
    drop(page, jpeg)
    panels = page.locator(".panel")
    assert not panels.nth(0).locator("form").is_visible()
    field = panels.nth(1).get_by_label("Score a label of your own")
    field.fill("golden wedding")
    field.press("Enter")
    row = panels.nth(1).locator('[data-label="golden wedding"]')
    row.wait_for()
    score = worded.scores(jpeg, labels=["golden wedding"])[0, 0]
    assert row.locator(".value").text_content() == f"{round(score * 100)}%"
    assert row.locator(".new").text_content() == "new"
    field.fill("wedding")
    field.press("Enter")
    panels.nth(1).locator('[data-label="wedding"]').wait_for()
    assert row.is_visible(), "a label that was typed before stays"
    field.fill("xqzzy")
    field.press("Enter")
    panels.nth(1).locator(".fault").wait_for()
    assert "xqzzy" in panels.nth(1).locator(".fault").text_content()


def test_a_broken_file_gets_a_message_and_the_next_picture_works(open_page, tiny, jpeg):
    page = open_page(allowed="415|422")
    page.wait_for_selector(".panel", state="attached")
    page.evaluate(DROP, [given(b"no picture at all", "letter.pdf")])
    alert = page.get_by_role("alert").and_(page.locator("#problem"))
    alert.wait_for()
    assert alert.text_content().startswith("letter.pdf: is not an image"), "named once"
    assert not page.locator("#work").is_visible()
    drop(page, jpeg)
    assert not alert.is_visible()
    assert tags(page) == names(tiny.predict(jpeg)[0])


def test_a_pasted_and_a_photographed_picture_get_tags(open_page, tiny, jpeg):
    page = open_page()
    page.wait_for_selector(".panel", state="attached")
    page.evaluate(PASTE, given(jpeg))
    wanted = names(tiny.predict(jpeg)[0])
    page.get_by_text(wanted[0], exact=True).first.wait_for()  # earlier tags are taken away before new ones come
    assert tags(page) == wanted
    page.get_by_role("button", name="Take a photo").click()
    until(page, "document.getElementById('video').videoWidth > 0")
    page.get_by_role("button", name="Use this photo").click()
    until(page, "document.getElementById('file-name').textContent === 'photo.jpg'")
    until(page, "document.getElementById('picture').naturalWidth > 300")


def test_a_folder_becomes_a_table_to_download_that_tagloom_reads(open_page, tiny, jpegs, tmp_path):
    folder = tmp_path / "holiday"
    folder.mkdir()
    odd = ["=1+1.jpg", 'a "b", c.jpg', "café.jpg", "3.jpg", "4.jpg", "5.jpg"]
    for name, data in zip(odd, jpegs, strict=True):
        (folder / name).write_bytes(data)
    (folder / "broken.jpg").write_bytes(b"nothing")
    (folder / "notes.txt").write_text("not a picture")
    page = open_page(allowed="415|422")
    page.wait_for_selector(".panel", state="attached")
    page.set_input_files("#folder-file", folder)
    page.get_by_text("6 of 7 pictures tagged, 1 cannot be read").wait_for()
    screenshot(page, "folder")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download table (CSV)").click()
    started.value.save_as(tmp_path / "tags.csv")
    table = load_table(tmp_path / "tags.csv")
    found = {table.path(row).relative_to(tmp_path).as_posix(): row for row in range(len(table))}
    assert set(found) == {f"holiday/{name}" for name in odd}
    for name, data in zip(odd, jpegs, strict=True):
        columns = table.targets([found[f"holiday/{name}"]])[0].nonzero()[0]
        assert {table.classes[column] for column in columns} == set(names(tiny.predict(data)[0]))
    page.get_by_role("button", name="holiday/4.jpg").click()
    until(page, "document.getElementById('file-name').textContent === 'holiday/4.jpg'")


def test_everything_can_be_done_with_the_keyboard(open_page, jpeg):
    page = open_page()
    page.wait_for_selector(".panel", state="attached")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    with page.expect_file_chooser() as chosen:
        for _ in range(3):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "choose":
                break
        page.keyboard.press("Enter")
    chosen.value.set_files({"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": jpeg})
    page.wait_for_selector(".panel:not(.waiting) .tag", state="attached")
    reached = []
    for _ in range(25):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        if reached[-1] == "threshold":
            page.keyboard.press("Home")
        if reached[-1].startswith("tag"):
            break
    assert "threshold" in reached
    until(page, f"({HEAT})() !== 0")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus is visible"
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_a_screen_reader_hears_the_tags(open_page, jpeg, tiny):
    page = open_page()
    drop(page, jpeg)
    until(page, "document.getElementById('status').textContent.startsWith('tiny: ')")
    said = page.locator("#status").text_content()
    assert all(name in said for name in names(tiny.predict(jpeg)[0]))
    label, score = tiny.predict(jpeg, top_k=1)[0][0]
    assert page.get_by_role("button", name=f"{label} {round(score * 100)}%").count() >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(open_page, jpeg, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    page = open_page(color_scheme=scheme, viewport={"width": width, "height": 844}, bypass_csp=True)
    page.wait_for_selector(".panel", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    pages = [axe.Axe().run(page).response["violations"]]
    screenshot(page, f"empty-{scheme}-{width}")
    page.set_input_files(
        "#file", [{"name": f"{number}.jpg", "mimeType": "image/jpeg", "buffer": jpeg} for number in range(3)]
    )
    page.get_by_text("3 of 3 pictures tagged").wait_for()
    page.get_by_text("Less likely labels").first.click()
    page.get_by_label("Threshold", exact=True).fill("30")
    page.locator(".panel .tag").first.click()
    screenshot(page, f"tags-{scheme}-{width}")
    pages.append(axe.Axe().run(page).response["violations"])
    found = [(fault["id"], [node["html"][:120] for node in fault["nodes"]]) for faults in pages for fault in faults]
    assert found == [], "no rule is broken, whatever its weight"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"


def test_on_a_phone_a_tap_shows_the_map_and_buttons_are_large_enough(open_page, jpeg):
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    drop(page, jpeg)
    page.get_by_text("Less likely labels").first.tap()
    tag = page.locator(".panel .tag").first
    tag.tap()
    until(page, f"({HEAT})() !== 0")
    assert tag.get_attribute("aria-pressed") == "true"
    for button in page.locator("button:visible").all():
        assert button.bounding_box()["height"] >= 36
    boxes = [page.locator(".panel").nth(index).bounding_box() for index in (0, 1)]
    assert boxes[1]["y"] > boxes[0]["y"], "panels stand below each other"


def test_colours_can_be_changed_and_stay(open_page):
    page = open_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == dark


def test_a_server_with_a_token_takes_it_from_the_address_or_asks_for_it(open_page, tiny, jpeg):
    with serving({"tiny": tiny}, access=Access(token=TOKEN)) as locked:
        page = open_page(f"{locked.url}/#token={TOKEN}")
        drop(page, jpeg)
        assert TOKEN not in page.url
        asked = open_page(locked.url, allowed="401")
        asked.get_by_role("textbox", name="Token").fill("wrong")
        asked.get_by_role("textbox", name="Token").press("Enter")
        asked.get_by_text("That was not the token").wait_for()
        asked.get_by_role("textbox", name="Token").fill(TOKEN)
        asked.get_by_role("textbox", name="Token").press("Enter")
        drop(asked, jpeg)
        assert tags(asked) == names(tiny.predict(jpeg)[0])


def test_many_pictures_while_the_server_is_busy_are_tagged_in_the_end(open_page, tiny):
    from tagloom.serve.limits import Limits

    with serving({"tiny": tiny}, limits=Limits(waiting=1, window_seconds=0.05)) as busy:
        page = open_page(busy.url, allowed="429")
        page.wait_for_selector(".panel", state="attached")
        files = [{"name": f"{n}.jpg", "mimeType": "image/jpeg", "buffer": encoded(n)} for n in range(8)]
        page.set_input_files("#file", files)
        until(page, "document.getElementById('folder-count').textContent === '8 of 8 pictures tagged'")


def test_thousands_of_labels_are_searched_and_never_all_drawn(open_page, jpeg):
    classes = tuple(f"label {number}" for number in range(9600))
    weights = np.random.default_rng(0).normal(size=(3, len(classes))).astype(np.float32)

    def network(pixels):
        return (pixels.reshape(len(pixels), -1, 3).mean(axis=1) / 64 - 2).astype(np.float32) @ weights

    spec = TaggerSpec(classes, Preprocess(size=32), "stub", "gap", thresholds=(0.9999,) * len(classes))
    tagger = Tagger(spec, network, "onnx", name="many")
    with serving({"many": tagger}) as client:
        page = open_page(client.url, allowed="422")  # without a network there are no heat maps
        drop(page, jpeg)
        page.locator("summary").click()
        assert page.locator(".rest .tag").count() == 12
        page.get_by_label("Find a label").fill("LABEL 4711")
        assert page.locator(".rest .name").all_text_contents() == ["label 4711"]
        score = tagger.scores([jpeg])[0][4711]
        assert page.locator(".rest .value").all_text_contents() == [f"{round(100 * float(score))}%"]
        screenshot(page, "many-labels")
        page.locator("#threshold").fill("0")
        above = int((tagger.scores([jpeg])[0] > 0).sum())
        assert page.locator(".panel > .tags .tag").count() == 100
        assert page.locator(".more").text_content() == f"and {above - 100:,} more tags"
        screenshot(page, "many-tags")
