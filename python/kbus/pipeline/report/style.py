# SPDX-License-Identifier: MIT
"""How the page looks: on a screen, on a phone and on paper."""

STYLE = """ :root { --ink: #1c2026; --soft: #59616c; --line: #dde1e6; --good: #2e7d4f; --watch: #b26a00;
--bad: #b3261e; } * { box-sizing: border-box; } body { font: 16px/1.5 system-ui, sans-serif; color:
var(--ink); background: #fff; margin: 0 auto; max-width: 60rem;
  padding: 1rem; }
h1 { font-size: 1.7rem; margin: 0.5rem 0 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.3rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.3rem; }
.scope, .more, footer { color: var(--soft); }
.more, footer { font-size: 0.85rem; }
.says { margin: 0.4rem 0 0.8rem; }
svg { display: block; width: 100%; height: auto; margin: 0.5rem 0; }
.plot { overflow-x: auto; }
.plot svg { min-width: 33rem; }
svg.spark { width: 7.5rem; margin: 0; }
.glance { list-style: none; margin: 0.6rem 0; padding: 0; }
.glance li { border-left: 0.4rem solid; padding: 0.35rem 0.8rem; margin: 0.4rem 0; background: #f7f8fa;
  display: grid; grid-template-columns: 6.5rem 1fr; gap: 0 0.8rem; }
.glance span { color: var(--ink); }
.good { border-color: var(--good) !important; } .good b { color: var(--good); }
.watch { border-color: var(--watch) !important; } .watch b { color: var(--watch); }
.bad { border-color: var(--bad) !important; } .bad b { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: right; padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { color: var(--soft); font-weight: 600; }
small { color: var(--soft); }
footer { margin-top: 3rem; border-top: 2px solid var(--line); }
@media (max-width: 40rem) {
  body { font-size: 15px; padding: 0.7rem; }
  .glance li { grid-template-columns: 1fr; }
  th, td { padding: 0.3rem 0.4rem; }
}
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  section { break-inside: avoid-page; }
  .wide, .plot { overflow: visible; }
  .plot svg { min-width: 0; }
  table { font-size: 8pt; }
  th, td { white-space: normal; padding: 0.1rem 0.3rem; }
}
""".strip()
