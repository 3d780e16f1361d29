"""The reports of `millrace tune`: figures, texts, files, and the HTML in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from io import StringIO

import pytest
from millrace.spark_glue.tuning.command import write_reports
from millrace.spark_glue.tuning.report import html_report
from millrace.spark_glue.tuning.terminal import print_outcome
from millrace.spark_glue.tuning.wording import HEADINGS, trial_cells, verdict
from rich.console import Console
from tune_outcomes import WINNER, outcome, trial

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VOID = {"meta", "link"}


def test_stages_add_up_to_the_cores_time():
    # 2 cores × 0.32 s of batches, by 0.2 million rows; state has Spark's commit, shuffle what the JVM wrote.
    stages = trial(1, WINNER, "", (150, 170)).stages()
    assert sum(stages.values()) == pytest.approx(2 * 0.32 / 0.2)
    assert stages["state"] == pytest.approx(0.2) and stages["shuffle"] == pytest.approx(0.1)
    # 0.3 s in tasks, of which 0.19 are told apart; the rest of 0.64 s is outside.
    assert stages["other in tasks"] == pytest.approx(0.11 / 0.2)
    assert stages["outside tasks"] == pytest.approx(0.34 / 0.2)


def test_figures_of_a_trial():
    made = trial(1, WINNER, "", (100, 200, 400))
    assert made.rows_per_second == 500_000 and made.latency_ms == (200, 400)
    assert made.cpu_per_million() == {"jvm": pytest.approx(0.2 / 0.3), "python": pytest.approx(0.1 / 0.3)}
    assert len(trial_cells(made)) == len(HEADINGS)


def test_a_trial_that_was_cut_in_its_warm_up_is_told_by_its_last_batch():
    made = trial(1, WINNER, "", ())
    made.batches = trial(1, WINNER, "", (400,)).batches
    made.warm_up = 4
    made.cut("out of time", "no time")
    assert made.rows_per_second == 250_000 and "last batch of the warm-up" in made.reason


def test_the_verdict():
    # 100,000 rows in 150 and in 170 ms against 800 and 820 ms: the medians of the rates.
    gain = (1 / 150 + 1 / 170) / (1 / 800 + 1 / 820)
    assert f"{gain:.2f} times Spark's defaults" in verdict(outcome())
    assert "No trial" in verdict(outcome(winner=None, trials=[], points=[]))


def test_the_document_holds_all():
    document = json.loads(json.dumps(outcome().as_dict()))
    assert document["winner"]["settings"]["partitions"] == 4
    assert document["scaling"]["law"] == "Amdahl" and document["scaling"]["r2"] is None
    # 384,615 and 625,000: 1/s + … by hand, 2·384615/625000 − 1 = 0.2308 is serial.
    assert document["scaling"]["serial"] == pytest.approx(0.2308, abs=1e-4)
    assert document["expected"][0]["rows_per_second"] == pytest.approx(384_615 / (0.2308 + 0.7692 / 8), rel=1e-3)
    assert [t["status"] for t in document["trials"]].count("failed") == 1


class Tags(HTMLParser):
    """Checks that tags close, and collects addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "changes",
    [{}, {"points": [(2, 625_000.0)], "expected_cores": ()}, {"winner": None, "points": []}, {"interrupted": True}],
)
def test_the_html_is_whole_and_needs_nothing_else(changes):
    page = html_report(outcome(**changes))
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.addresses == ["data:,"]
    assert "http" not in page.replace("http-equiv", "") and "@import" not in page and "url(" not in page
    assert "<script" not in page and escape("boom <script>") in page


def test_the_html_says_what_matters():
    page = html_report(outcome())
    assert "extrapolated from at most 2 cores, not measured" in page and "two points" in page.lower()
    assert "spark.sql.shuffle.partitions" in page and "source → Arrow" in page
    assert "interrupted" not in page and "interrupted" in html_report(outcome(interrupted=True))


def test_the_terminal():
    console = Console(file=StringIO(), width=100)
    print_outcome(outcome(), console)
    told = console.file.getvalue()
    assert "times Spark's defaults" in told and "8 cores:" in told and "source → Arrow" in told


def test_files(tmp_path):
    report, conf = write_reports(outcome(), tmp_path / "new" / "folder")
    assert report.name == "report.html" and "spark.sql.shuffle.partitions" in conf.read_text()
    # Without a winner the fragment of an earlier run does not stay.
    assert write_reports(outcome(winner=None, points=[]), conf.parent) == [report]
    assert not conf.exists()


# The page runs inside a frame of a phone's width; beside it stands a script that measures it.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">
<iframe id="page" style="width: WIDTHpx; height: 900px; border: 0" srcdoc="PAGE"></iframe>
<pre id="told"></pre>
<script>
document.getElementById("page").addEventListener("load", (event) => {
  const page = event.target.contentDocument, root = page.documentElement;
  const drawn = (what) => [...page.querySelectorAll(what)].filter((e) => e.getBoundingClientRect().width > 0).length;
  const texts = [...page.querySelectorAll("svg text")].map((e) => e.getBoundingClientRect());
  const charts = [...page.querySelectorAll("svg")];
  document.getElementById("told").textContent = JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth,
    beyond: [...page.querySelectorAll("body *")]
      .filter((e) => !e.closest("pre") && e.getBoundingClientRect().right > root.clientWidth + 0.5)
      .map((e) => e.tagName + ":" + e.textContent.slice(0, 40)),
    bars: drawn(".stages rect"), dots: drawn(".throughput circle"), lines: drawn(".throughput polyline"),
    smallest: Math.min(...texts.map((t) => t.height)),
    shrunk: Math.min(...charts.map((e) => e.getBoundingClientRect().width / e.viewBox.baseVal.width)),
    cards: getComputedStyle(page.querySelector(".cards thead")).display,
    background: getComputedStyle(page.body).backgroundColor,
  });
});
</script>
"""


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1200, False), (360, True)])
def test_in_a_browser(tmp_path, width, dark):
    assert BROWSER, "Chromium is missing: run scripts/ensure_browser.sh"
    probe = tmp_path / "probe.html"
    page = html_report(outcome())
    probe.write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", escape(page)), encoding="utf-8")
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000", "--enable-logging=stderr",
        "--virtual-time-budget=5000", *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        "--dump-dom", probe.as_uri(),
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "CONSOLE" not in run.stderr
    told = json.loads(re.search(r'<pre id="told">(.*?)</pre>', run.stdout, re.DOTALL)[1])
    assert told["scroll"] <= told["width"] and told["beyond"] == []
    # Two trials have all eight stages; two points measured and two expected; the law within and beyond them.
    assert (told["bars"], told["dots"], told["lines"]) == (16, 4, 2)
    assert told["smallest"] >= 8 and told["shrunk"] >= 0.85
    assert (told["cards"] == "none") is (width == 360)
    assert told["background"] == ("rgb(21, 24, 28)" if dark else "rgb(247, 246, 243)")
