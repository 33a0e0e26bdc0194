"""`evenkeel windows`, and what a configuration file may say about windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.configuration import load_configuration
from evenkeel.model.errors import InputError
from support.commands import evenkeel_here

HEAD = "[clusters.prod]\nlake = 'lake'\n"
NIGHTS = {
    "name": "'nights'",
    "days": "['sat', 'sun']",
    "start": "'02:00'",
    "duration": "'3h'",
    "time_zone": "'Europe/Berlin'",
}


def window(**changes: str | None) -> str:
    fields = {key: value for key, value in (NIGHTS | changes).items() if value is not None}
    return "[[clusters.prod.windows]]\n" + "".join(f"{key} = {value}\n" for key, value in fields.items())


def write(folder: Path, *parts: str) -> Path:
    file = folder / "evenkeel.toml"
    file.write_text("".join([HEAD, *parts]))
    return file


def test_coming_windows_are_listed_with_the_reason_for_those_that_stay_closed(tmp_path: Path) -> None:
    file = write(
        tmp_path, window(lead="'2h'", cutoff="'15m'"), "[clusters.prod.blackouts]\ndates = ['2026-01-01/2199-12-31']\n"
    )
    answer = evenkeel_here("--config", file, "windows", "--next", "3", "--json")
    assert answer.code == 0, answer.err
    listed = answer.document["windows"]
    assert [each["name"] for each in listed] == ["nights"] * 3
    assert {each["closed_because"] for each in listed} == {"falls into a blackout (2026-01-01 to 2199-12-31)"}
    shown = evenkeel_here("--config", file, "windows").out
    assert "none of these windows opens" in shown
    open_ones = evenkeel_here("--config", write(tmp_path, window(lead="'2h'", cutoff="'15m'")), "windows").out
    assert "planning from 00:00" in open_ones.replace("\n", " ")


@pytest.mark.parametrize("words", [("--cluster", "test"), ()])
def test_cluster_without_windows_is_told_how_to_get_some(tmp_path: Path, words: tuple[str, ...]) -> None:
    answer = evenkeel_here("--config", write(tmp_path), "windows", *words)
    assert answer.code == 1
    assert "add [[clusters.prod.windows]]" in answer.err or "cluster 'test' is not in" in answer.err


def test_freeze_calendars_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, window(), "[clusters.prod.blackouts]\ncalendars = ['freeze.ics']\n")
    (tmp_path / "freeze.ics").write_text("no calendar")
    answer = evenkeel_here("--config", file, "windows")
    assert (answer.code, "freeze.ics is not a calendar" in answer.err.replace("\n", "")) == (1, True), answer.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (window(starts="'02:00'"), r"windows\[0\]: unknown key starts: did you mean start"),
        (window(name="''"), "name = '' is not a short text"),
        (window(start="'2am'"), "start = '2am' is not understood: write it as start = \"02:00\""),
        (window(start="'24:00'"), "start = '24:00' is not understood"),
        (window(start=None), "start = missing is not understood"),
        (window(duration="'3'"), "duration = '3' is not understood"),
        (window(duration="'0s'"), "window 'nights' lasts 0s"),
        (window(duration="'8d'"), "window 'nights' lasts 8d: choose up to 7 days"),
        (window(days="['someday']"), "days = .* is not understood"),
        (window(days="[]"), "days = .* is not understood"),
        (window(days=None), "has both days and rrule, or neither"),
        (window(rrule="'FREQ=DAILY'"), "has both days and rrule, or neither"),
        (window(days=None, rrule="'FREQ=SECONDLY'"), "the rrule of window 'nights' is not understood"),
        (window(days=None, rrule="'FREQ=DAILY;COUNT=3'"), "the rrule of window 'nights' is not understood"),
        (window(days=None, rrule="'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30'"), "window 'nights' never opens"),
        (window(time_zone="'Middle/Earth'"), "'Middle/Earth' is not a time zone"),
        (window(time_zone="'../../etc/passwd'"), "is not a time zone"),
        (window(cutoff="'3h'"), "the cutoff of window 'nights' leaves no time to begin a step"),
        (window(lead="'3d'"), "window 'nights' leads by 3d"),
        (window() + window(), "two windows of the name 'nights'"),
        (window() + window(name="'same time'"), "window 'same time' never opens, because it always overlaps"),
        ("[clusters.prod.blackouts]\ndays = []\n", "unknown key clusters.prod.blackouts.days: did you mean dates"),
        ("[clusters.prod.blackouts]\ndates = ['soon']\n", "'soon' is not a day or a range of days"),
        ("[clusters.prod.blackouts]\ndates = ['2026-12-24/2026-12-20']\n", "ends before it begins"),
        ("[clusters.prod.blackouts]\ncalendars = 'x.ics'\n", "calendars = 'x.ics' is not a list of paths"),
        ("[clusters.prod.blackouts]\nmin_distance = 20\n", "min_distance = 20 is not a span"),
    ],
)
def test_wrong_windows_are_refused_with_their_key(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_configuration(write(tmp_path, text))
