"""Every screen, at phone and desktop width, light and dark: axe-core, the Tab key, the layout.

With COUNTERPLAY_SHOTS=FOLDER the walk leaves a picture of each of them there, to be looked at.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from screens import all_pages, screens

from studio.web_house import Web

WIDTHS = {1280: 900, 390: 844}
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
AXE = """async levels => (await axe.run(document, {runOnly: levels})).violations.map(
    v => v.id + ': ' + v.nodes.map(n => n.html).join(' | '))"""
CONTROLS = """() => {
  const all = document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [tabindex="0"]');
  const seen = e => { const b = e.getBoundingClientRect();
    return b.width > 0 && b.height > 0 && !e.disabled && e.checkVisibility(); };
  window.controls = [...all].filter(seen);
  document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');
  window.scrollTo(0, 0);
  return window.controls.map(e => e.outerHTML.slice(0, 120));
}"""
FOCUSED = """() => {
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).slice(0, 3).map(
      v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const e = document.activeElement, ring = e.closest('.option') || e, s = getComputedStyle(ring);
  const lights = [s.outlineColor, getComputedStyle(document.body).backgroundColor].map(light);
  const contrast = (Math.max(...lights) + .05) / (Math.min(...lights) + .05);
  const shown = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && contrast >= 3;
  return [window.controls.indexOf(e), shown || e.tagName === 'IFRAME'];
}"""


@pytest.fixture
def page(chromium: Any) -> Any:
    """A browser whose console must stay silent."""
    context = chromium.new_context(
        locale="en-GB", reduced_motion="reduce", viewport={"width": 1280, "height": 900}
    )
    page, said = context.new_page(), []
    page.on("console", lambda m: said.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    fine = ("status of 4", "the document's frame is sandboxed")  # the pages of audits have a script
    assert [told for told in said if not any(word in told for word in fine)] == []


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core."""
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    import axe_playwright_python

    return Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text("utf-8")


def walked(page: Any) -> None:
    """The Tab key reaches every control in the order of the page, and the focus can be seen."""
    controls, reached = page.evaluate(CONTROLS), [-1]
    frames = [i for i, control in enumerate(controls) if control.startswith("<iframe")]
    wanted = [i for i in range(len(controls)) if i not in frames]
    for _ in range(200 + len(controls)):  # a frame has controls of its own, or none
        page.keyboard.press("Tab")
        place, shown = page.evaluate(FOCUSED)
        if place in frames or (place == -1 and reached[-1] + 1 in frames):
            continue  # a frame of another process tells late that it has the focus
        assert shown, ("the focus cannot be seen", place, reached, controls)
        reached.append(place)
        if len(reached) > len(wanted):
            break
    assert reached[1:] == wanted, (reached, controls)


def shoot(page: Any, name: str) -> None:
    """Leave a picture, if pictures are wanted."""
    if folder := os.environ.get("COUNTERPLAY_SHOTS"):
        page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)


@pytest.mark.long
@pytest.mark.claim("28.11")
def test_every_screen_is_accessible_at_both_widths_light_and_dark(
    web: Web, page: Any, axe: str, tmp_path: Path
) -> None:
    seen = set()
    for number, name in enumerate(screens(web, page, tmp_path)):
        seen.add(page.locator("main").get_attribute("data-page"))
        assert page.locator("h1").count() == page.locator("main").count() == 1, name
        page.evaluate(axe)
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate(AXE, LEVELS) == [], (name, width, scheme)
                shoot(page, f"{number:02} {name.replace('/', ' ')} {width} {scheme}")
                if (width, scheme) in ((1280, "light"), (390, "dark")):
                    walked(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        page.set_viewport_size({"width": 1280, "height": 900})
    assert seen == all_pages()


@pytest.mark.claim("28.22")
def test_every_layout_holds_with_longer_texts(
    web: Web, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts 40 % longer, at 390 and at 320 pixels: nothing scrolls sideways or overlaps."""
    from counterplay.studio.web import texts

    english = texts.language("en")
    longer = {key: f"{text} {filler(text)}" for key, text in english.texts.items()}
    monkeypatch.setattr(english, "texts", longer)
    for name in screens(web, page, tmp_path):
        for width in (390, 320):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            assert page.evaluate(OVERLAPS) == [], (name, width)
        page.set_viewport_size({"width": 1280, "height": 900})


OVERLAPS = """() => {
  const chosen = 'main button, main input:not([type=hidden]), main select';
  const boxes = [...document.querySelectorAll(chosen)].filter(e => e.checkVisibility())
    .map(e => [e.getBoundingClientRect(), e.outerHTML.slice(0, 80)])
    .filter(([b]) => b.width > 0 && b.height > 0);
  const found = [];
  for (const [i, [a, one]] of boxes.entries())
    for (const [b, other] of boxes.slice(i + 1))
      if (a.bottom > b.top + 1 && b.bottom > a.top + 1
          && a.right > b.left + 1 && b.right > a.left + 1) found.push([one, other]);
  return found;
}"""


def filler(text: str) -> str:
    """Words that make a text 40 % longer."""
    return ("wordsandwords " * (1 + len(text) // 30))[: 1 + 4 * len(text) // 10]
