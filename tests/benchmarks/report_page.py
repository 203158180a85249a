"""Look at the report in a real browser: widths, errors, requests, pictures to look at, and a PDF.

Needs Chromium and, for node, playwright-core (`npm install playwright-core` in any folder); without them it says so
and does nothing.

    python -m tests.benchmarks.report_page --modules FOLDER/node_modules --out FOLDER [REPORT.html ...]

Without pages of its own it draws both versions of a made-up report with hostile names and many columns, and one of a
failed run. Exit code 1 where a page is wider than the window, says something on the console, asks for anything, cuts
a text off, or has its first picture below 800 px of a wide window.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from anonpipe.report import external, internal, render
from tests.report import made

SCRIPT = """
const { chromium } = require('playwright-core');
const [executablePath, ...pages] = process.argv.slice(2);
(async () => {
  const browser = await chromium.launch({ executablePath, args: ['--headless', '--no-sandbox', '--disable-gpu',
    '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
    '--disable-sync'] });
  let wrong = 0;
  for (const path of pages) {
    for (const [width, scheme] of [[1280, 'light'], [390, 'light'], [360, 'dark']]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
      const said = [], asked = [];
      page.on('console', message => said.push(message.text()));
      page.on('pageerror', error => said.push(String(error)));
      page.on('request', request => asked.push(request.url()));
      await page.goto('file://' + path);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      const unnamed = await page.evaluate(() =>
        [...document.querySelectorAll('svg')]
          .filter(s => s.getAttribute('role') !== 'img' || !s.getAttribute('aria-label')).length);
      const small = await page.evaluate(() => Math.min(12, ...[...document.querySelectorAll('svg text:not(.small)')]
        .map(t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / 340)
        .filter(v => v > 0)));
      const cut = await page.evaluate(() => [...document.querySelectorAll('svg')].flatMap(s => {
        const box = s.getBoundingClientRect();
        return [...s.querySelectorAll('text')].map(t => t.getBoundingClientRect())
          .filter(r => r.width > 0 && (r.left < box.left - 2 || r.right > box.right + 2));
      }).length);
      const first = await page.evaluate(() => Math.min(...[...document.querySelectorAll('svg')]
        .filter(s => !s.closest('.dials') && s.checkVisibility()).map(s => s.getBoundingClientRect().top)));
      const high = await page.evaluate(() => document.documentElement.scrollHeight);
      const others = asked.filter(url => !url.startsWith('data:') && url !== 'file://' + path);
      wrong += (wide > 0) + said.length + others.length + unnamed + cut + (width === 1280 && first > 800);
      console.log(`${path} ${width}px ${scheme}: overflow ${wide}, console ${said.length}, ` +
        `requests ${others.length}, figures without a name ${unnamed}, smallest letters ${small.toFixed(1)} px, ` +
        `texts outside their figure ${cut}, first picture at ${first.toFixed(0)} of ${high} px ` + said.join('; '));
      const shot = path.replace(/[.]html$/, `-${width}-${scheme}.png`);
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      const clip = { x: 0, y: 0, width, height: Math.min(height, 16000) };
      await page.screenshot({ path: shot, fullPage: true, clip }).catch(() => console.log(`no picture of ${shot}`));
      if (width === 1280) await page.pdf({ path: path.replace(/[.]html$/, '.pdf'), format: 'A4' });
      await page.close();
    }
  }
  await browser.close();
  process.exit(wrong ? 1 : 0);
})();
"""


def made_pages(folder: Path) -> list[Path]:
    """Made-up reports of all three kinds, with many columns."""
    names = tuple(f"a rather long column name {at}" for at in range(30))
    distributions = {"internal": made.distributions(), "external": made.distributions(20)}
    facts = made.facts(distributions=distributions, correlations=made.matrices(names))
    reports = {
        "internal": internal(facts, "/releases/versions/20260131T120000-0a1b2c3d"),
        "external": external(facts),
        "failed": internal(made.facts(failed=True), None),
    }
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(render(report))
    return [folder / f"{name}.html" for name in reports]


def main() -> int:
    """Draw, open, and look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--modules", type=Path, default=Path("node_modules"))
    parser.add_argument("--out", type=Path, default=Path("report-pages"))
    arguments = parser.parse_args()
    browser, node = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("node")
    if not browser or not node or not (arguments.modules / "playwright-core").is_dir():
        print("skipped: needs chromium, node, and playwright-core in --modules")
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    given = [Path(shutil.copy(page, arguments.out / f"given-{at}.html")) for at, page in enumerate(arguments.pages)]
    pages = [str(page.resolve()) for page in given or made_pages(arguments.out)]
    script = arguments.out / "look.js"
    script.write_text(SCRIPT)
    environment = {**os.environ, "NODE_PATH": str(arguments.modules.resolve())}
    return subprocess.run([node, str(script.resolve()), browser, *pages], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
