"""The style sheet of a plan's report: light and dark, wide and narrow, and on paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #17222b; --soft: #57666f; --paper: #f4f6f6; --card: #ffffff; --line: #dde3e5;
  --accent: #0b7a83; --before: #b9c5ca; --band: #b86e00; --bad: #bf3b32; --good: #2b7d46; --track: #eef2f3;
  --heat1: #cfe6e4; --heat2: #8cc6c4; --heat3: #3f9ea3; --wall: #bf3b3216; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5ecef; --soft: #9babb4; --paper: #11181d; --card: #1a232a;
  --line: #2c3942; --accent: #35b3bd; --before: #52626c; --band: #e6a23c; --bad: #f0766c; --good: #5fbf80;
  --track: #232f37; --heat1: #21434a; --heat2: #2a6a72; --heat3: #35979f; --wall: #f0766c22; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 2px 0 10px; letter-spacing: -0.015em; text-wrap: balance;
  overflow-wrap: anywhere; }
h2 { font-size: 20px; margin: 48px 0 4px; letter-spacing: -0.005em; }
h3 { font-size: 15px; margin: 0; }
p { margin: 0 0 12px; max-width: 78ch; }
a { color: var(--accent); }
.soft { color: var(--soft); }
.abstract { font-size: 17px; }
.eyebrow { color: var(--accent); font-weight: 600; font-size: 13px; letter-spacing: .08em; text-transform: uppercase;
  margin: 0; }
code, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: .88em;
  overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 16px 0 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; min-width: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px; margin: 24px 0 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 16px; }
.tile b { display: block; white-space: nowrap; font-size: 22px; line-height: 1.35; font-weight: 650;
  font-variant-numeric: tabular-nums; }
.tile .arrow { color: var(--soft); font-weight: 400; font-size: 18px; padding: 0 3px; }
.tile small { color: var(--soft); display: block; }
nav { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 24px 0 0; }
nav a { text-decoration: none; } nav a:hover, nav a:focus { text-decoration: underline; }
.card { padding: 16px; margin: 12px 0 0; }
.card header { display: flex; flex-wrap: wrap; gap: 2px 16px; justify-content: space-between; align-items: baseline;
  margin-bottom: 8px; }
.card header .soft { font-size: 13px; }
.badge { display: inline-block; border-radius: 999px; padding: 1px 10px; font-size: 13px; font-weight: 600;
  border: 1px solid currentColor; white-space: nowrap; }
.bad { color: var(--bad); } .good { color: var(--good); } .warn { color: var(--band); }

svg { display: block; }
svg rect.before, svg path.before { fill: var(--before); } svg rect.after { fill: var(--accent); }
svg rect.outside { fill: var(--bad); } svg rect.canary { fill: var(--band); }
svg path { vector-effect: non-scaling-stroke; fill: none; }
svg path.band { stroke: var(--band); stroke-width: 2; }
svg path.overload { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 4; }
svg path.grid { stroke: var(--line); stroke-width: 1; }
svg path.after-line { stroke: var(--accent); stroke-width: 2.5; stroke-linejoin: round; }
svg path.impossible { fill: var(--wall); }
svg path.dot { stroke: var(--accent); stroke-width: 9; stroke-linecap: round; }
.heat0 { fill: var(--track); } .heat1 { fill: var(--heat1); } .heat2 { fill: var(--heat2); }
.heat3 { fill: var(--heat3); } .heat4 { fill: var(--bad); }
svg.share { width: 120px; max-width: 100%; height: 8px; border-radius: 4px; background: var(--track); }
svg.track { width: 100%; height: 20px; border-radius: 4px; background: var(--track); }
td > svg.share { margin-top: 8px; }
.bar { display: grid; grid-template-columns: minmax(80px, 1fr) 92px; gap: 10px; align-items: center; }
.bar span { text-align: right; font-size: 13px; white-space: nowrap; }
td:has(.bar) { padding-top: 4px; padding-bottom: 4px; border: 0; min-width: 190px; }
tr:has(.bar) th.lead { padding-top: 4px; padding-bottom: 4px; border: 0; white-space: nowrap; }
.gauges { display: grid; gap: 10px; }
.gauge { display: grid; grid-template-columns: minmax(110px, 180px) 1fr 64px 230px; gap: 14px; align-items: center; }
.gauge b { text-align: right; font-variant-numeric: tabular-nums; }
.plot { position: relative; height: 210px; margin: 18px 10px 34px 52px; }
.plot .canvas { position: absolute; inset: 0; width: 100%; height: 100%; overflow: visible; }
.plot span { position: absolute; font-size: 12px; line-height: 16px; color: var(--soft); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.plot .x { top: calc(100% + 6px); transform: translateX(-50%); }
.plot .x.first { transform: translateX(-4px); } .plot .x.last { transform: translateX(calc(-100% + 4px)); }
.plot .y { right: calc(100% + 8px); transform: translateY(50%); }
.strips { display: grid; gap: 4px; }
.strip-row { display: grid; grid-template-columns: 52px 1fr 84px; gap: 10px; align-items: center; font-size: 12px;
  color: var(--soft); }
.strip-row span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
svg.strip { width: 100%; height: 22px; border-radius: 4px; background: var(--track); shape-rendering: crispEdges; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; color: var(--soft); font-size: 13px; margin: 6px 0 0; }
.legend i { display: inline-block; width: 14px; height: 9px; border-radius: 2px; margin-right: 6px; }
.legend .before { background: var(--before); } .legend .after { background: var(--accent); }
.legend .outside { background: var(--bad); } .legend .wall { background: var(--wall); outline: 1px solid var(--line); }
.legend .dash { height: 0; border-top: 2px dashed var(--bad); vertical-align: 4px; }
.legend .tick { width: 3px; height: 14px; vertical-align: -2px; background: var(--band); }

.pair { display: grid; grid-template-columns: 3fr 2fr; gap: 0 12px; align-items: start; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
thead th { text-align: left; color: var(--soft); font-weight: 500; font-size: 13px; white-space: nowrap; }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th.lead { text-align: left; font-weight: inherit; }
tr:last-child td, tr:last-child th.lead { border-bottom: 0; }
th:last-child, td:last-child { padding-right: 0; }
.number, thead th.number { text-align: right; white-space: nowrap; }
.measure { display: grid; gap: 5px; }
.why { color: var(--soft); font-size: 13.5px; display: block; max-width: 68ch; }
td:not(.lead) code, .route, .tight { white-space: nowrap; }
details { margin-top: 12px; } .card > details:first-child { margin-top: 0; }
summary { cursor: pointer; color: var(--accent); } summary .rule { display: inline-block; min-width: 170px; }
summary svg.share { display: inline-block; vertical-align: 1px; margin-right: 8px; }
ul.checks, ul.told { list-style: none; margin: 0; padding: 0; }
ul.told { padding: 6px 0 0 18px; color: var(--soft); list-style: disc; }
ul.checks li { display: grid; grid-template-columns: 92px 1fr; gap: 12px; padding: 8px 0;
  border-bottom: 1px solid var(--line); }
ul.checks li:last-child { border-bottom: 0; }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; }

@media (max-width: 680px) {
  main { padding: 24px 14px 40px; } h1 { font-size: 24px; } .abstract { font-size: 16px; }
  .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: 8px; }
  .tiles { grid-template-columns: 1fr 1fr; } .tile { padding: 12px; } .tile b { font-size: 20px; }
  table.stack td:has(.bar)::before { width: 104px; } .bar { flex: 1; grid-template-columns: minmax(60px, 1fr) 84px; }
  .gauge { grid-template-columns: 1fr max-content; gap: 2px 12px; }
  .gauge svg { grid-column: 1 / -1; grid-row: 2; } .gauge small { grid-column: 1 / -1; }
  .plot { margin-left: 44px; height: 180px; } .pair { grid-template-columns: 1fr; }
  ul.checks li { grid-template-columns: 1fr; gap: 2px; }
  table.stack thead { display: none; }
  table.stack tr { display: block; padding: 10px 0; border-bottom: 1px solid var(--line); }
  table.stack tr:last-child { border-bottom: 0; }
  table.stack td, table.stack th.lead { display: flex; justify-content: space-between; gap: 16px; border: 0;
    padding: 1px 0; text-align: right; }
  table.stack td::before { content: attr(data-label); color: var(--soft); flex: none; text-align: left; }
  table.stack th.lead { display: block; text-align: left; }
  .measure { grid-template-columns: auto 90px; align-items: center; }
}
@media print {
  body { background: #fff; font-size: 12px; } main { max-width: none; padding: 0; } nav { display: none; }
  .card, .tile, .plot, tr { break-inside: avoid; } h2 { break-after: avoid; } .card:has(table) { break-inside: auto; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
