"""The style sheet of a plan's report: light and dark, wide and narrow, and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #17222b; --soft: #5b6b76; --paper: #f4f6f6; --card: #ffffff; --line: #dde3e5;
  --accent: #0b7a83; --before: #b9c5ca; --band: #b86e00; --bad: #bf3b32; --good: #2b7d46; --track: #eef2f3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5ecef; --soft: #97a6af; --paper: #11181d; --card: #1a232a;
  --line: #2c3942; --accent: #35b3bd; --before: #52626c; --band: #e6a23c; --bad: #f0766c; --good: #5fbf80;
  --track: #232f37; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 2px 0 10px; letter-spacing: -0.015em; text-wrap: balance; }
h2 { font-size: 19px; margin: 44px 0 4px; letter-spacing: -0.005em; }
h3 { font-size: 15px; margin: 0; }
p { margin: 0 0 12px; }
.soft { color: var(--soft); }
.eyebrow { color: var(--accent); font-weight: 600; font-size: 13px; letter-spacing: .08em; text-transform: uppercase;
  margin: 0; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: .88em;
  overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 16px 0 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; min-width: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px; margin: 24px 0 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 16px; }
.tile b { display: block; white-space: nowrap; font-size: 25px; line-height: 1.25; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.tile .arrow { color: var(--soft); font-weight: 400; font-size: 18px; padding: 0 3px; }
.tile small { color: var(--soft); display: block; }
.card { padding: 16px; margin: 12px 0 0; }
.card header { display: flex; flex-wrap: wrap; gap: 2px 16px; justify-content: space-between; align-items: baseline;
  margin-bottom: 8px; }
.badge { display: inline-block; border-radius: 999px; padding: 1px 10px; font-size: 13px; font-weight: 600;
  border: 1px solid currentColor; white-space: nowrap; }
.bad { color: var(--bad); } .good { color: var(--good); } .warn { color: var(--band); }
.bar { display: grid; grid-template-columns: minmax(110px, 190px) 1fr 128px; gap: 14px; align-items: center;
  padding: 3px 0; }
.bar svg { width: 100%; height: 20px; display: block; border-radius: 4px; background: var(--track); }
.bar span:last-child { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--soft); font-size: 13px; margin: 6px 0 0; }
.legend i { display: inline-block; width: 14px; height: 9px; border-radius: 2px; margin-right: 6px; }
.legend .tick { width: 3px; height: 14px; vertical-align: -2px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; } th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; }
.why { color: var(--soft); font-size: 13.5px; display: block; max-width: 62ch; }
td:not(.lead) code, .route { white-space: nowrap; }
details { margin-top: 12px; } summary { cursor: pointer; color: var(--accent); }
ul.checks { list-style: none; margin: 0; padding: 0; }
ul.checks li { display: grid; grid-template-columns: 92px 1fr; gap: 12px; padding: 8px 0;
  border-bottom: 1px solid var(--line); }
ul.checks li:last-child { border-bottom: 0; }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; }
@media (max-width: 640px) {
  main { padding: 24px 14px 40px; } h1 { font-size: 24px; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: 8px; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .bar { grid-template-columns: 1fr max-content; gap: 0 12px; padding: 6px 0; }
  .bar svg { grid-column: 1 / -1; grid-row: 2; }
  ul.checks li { grid-template-columns: 1fr; gap: 2px; }
  table.stack thead { display: none; }
  table.stack tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  table.stack tr:last-child { border-bottom: 0; }
  table.stack td { display: flex; justify-content: space-between; gap: 16px; border: 0; padding: 1px 0;
    text-align: right; }
  table.stack td::before { content: attr(data-label); color: var(--soft); flex: none; text-align: left; }
  table.stack td.lead { display: block; text-align: left; } table.stack td.lead::before { content: none; }
}
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
"""
