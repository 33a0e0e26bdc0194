// The steps of a plan: grouped, searched and drawn only where they are in view.

import { count, h, int, megabytes, ownApi, seconds, seg, useData, useDeferredValue, useMemo, useState } from "./lib.js";
import { Failure, Loading, Notice, VirtualGrid } from "./parts.js";

const GROUPS = [["", "nothing"], ["source", "source"], ["destination", "destination"], ["tenant", "tenant"], ["wave", "wave"]];
const HEADS = [["Bundle"], ["Step", "num"], ["From"], ["To"], ["In, MB/s", "num"], ["Out, MB/s", "num"], ["CPU, %", "num"], ["Sessions", "num"], ["Client-s", "num"]];
const NAMES = { split: "split in two", unload: "Pulsar's choice" };

export const Steps = ({ cluster, planId }) => {
  const { data, error } = useData(ownApi(`clusters/${seg(cluster)}/plans/${seg(planId)}/steps`));
  const [wanted, setWanted] = useState("");
  const [by, setBy] = useState("source");
  const [closed, setClosed] = useState(() => new Set());
  const [chosen, setChosen] = useState(null);
  const words = useDeferredValue(wanted);
  const table = useMemo(() => (data ? readTable(data) : null), [data]);
  const found = useMemo(() => (table ? search(table, words) : []), [table, words]);
  const items = useMemo(() => (table ? group(table, found, by, closed) : []), [table, found, by, closed]);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "steps" });
  if (!data.rows) return h(Notice, null, "The plan has no steps.");
  const open = (item) => {
    if (!item.isGroup) return setChosen(chosen === item.key ? null : item.key);
    const next = new Set(closed);
    if (!next.delete(item.key)) next.add(item.key);
    return setClosed(next);
  };
  return h(
    "div",
    null,
    h(
      "div",
      { className: "tools" },
      h("label", null, "Search bundle, broker or reason", h("input", { type: "search", value: wanted, onChange: (event) => setWanted(event.target.value) })),
      h(
        "label",
        null,
        "Group by",
        h("select", { value: by, onChange: (event) => { setBy(event.target.value); setClosed(new Set()); } }, GROUPS.map(([key, name]) => h("option", { key, value: key }, name))),
      ),
      h("p", { className: "soft", role: "status", "aria-live": "polite" }, `${count(found.length, "step")}${found.length === data.rows ? "" : ` of ${int(data.rows)}`}`),
    ),
    data.steps_in_all > data.rows && h(Notice, { tone: "warn" }, `The first ${int(data.rows)} of ${int(data.steps_in_all)} steps are shown; steps.parquet has all.`),
    h(VirtualGrid, { label: "Steps", heads: HEADS, items, selected: chosen, onOpen: open, renderRow: (item) => (item.isGroup ? groupCells(item, by) : stepCells(table, item.row)) }),
    chosen !== null && table && h(Why, { table, row: Number(chosen.slice(1)) }),
    h("p", { className: "soft" }, "Choose a step to see why. Arrow keys move, Enter opens."),
  );
};

function readTable(data) {
  const { columns, rows } = data;
  const texts = new Array(rows);
  for (let row = 0; row < rows; row += 1) {
    texts[row] = `${columns.bundle[row]} ${columns.source[row]} ${columns.destination[row] ?? ""} ${columns.kind[row]} ${columns.reason[row]}`.toLowerCase();
  }
  return { ...columns, rows, texts };
}

function search(table, words) {
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (let row = 0; row < table.rows; row += 1) if (parts.every((part) => table.texts[row].includes(part))) found.push(row);
  return found;
}

function group(table, found, by, closed) {
  if (!by) return found.map((row) => ({ key: `s${row}`, row }));
  const groups = new Map();
  for (const row of found) {
    const name = table[by][row] ?? NAMES[table.kind[row]];
    const known = groups.get(name);
    if (known) known.push(row);
    else groups.set(name, [row]);
  }
  const sum = (rows, name) => rows.reduce((total, row) => total + table[name][row], 0);
  const ordered = [...groups].sort(by === "wave" ? ([a], [b]) => a - b : ([a, x], [b, y]) => y.length - x.length || String(a).localeCompare(String(b)));
  return ordered.flatMap(([name, rows]) => {
    const key = `g${name}`;
    const isOpen = !closed.has(key);
    const totals = Object.fromEntries(["in_bytes_per_s", "out_bytes_per_s", "cpu_percent", "sessions", "client_seconds"].map((each) => [each, sum(rows, each)]));
    const head = { key, isGroup: true, isOpen, name, many: rows.length, totals };
    return isOpen ? [head, ...rows.map((row) => ({ key: `s${row}`, row, level: 2 }))] : [head];
  });
}

const cell = (key, kind, words, title) => h("div", { key, role: "gridcell", className: `cell ${kind}`, title }, words);
const figures = (values) => [
  cell("in", "num", megabytes(values.in_bytes_per_s)),
  cell("out", "num", megabytes(values.out_bytes_per_s)),
  cell("cpu", "num", values.cpu_percent.toFixed(1)),
  cell("sessions", "num", int(values.sessions)),
  cell("cost", "num", seconds(values.client_seconds)),
];

const groupCells = (item, by) => [
  cell("name", "", `${item.isOpen ? "▾" : "▸"} ${by === "wave" ? (item.name === 0 ? "wave 0, the canary" : `wave ${item.name}`) : item.name}`),
  cell("many", "", count(item.many, "step")),
  ...figures(item.totals),
];

const stepCells = (table, row) => [
  cell("bundle", "mono", table.bundle[row], table.bundle[row]),
  cell("order", "num", int(table.order[row])),
  cell("source", "mono", table.source[row], table.source[row]),
  cell("destination", "mono", table.destination[row] ?? NAMES[table.kind[row]], table.destination[row] ?? ""),
  ...figures({
    in_bytes_per_s: table.in_bytes_per_s[row], out_bytes_per_s: table.out_bytes_per_s[row], cpu_percent: table.cpu_percent[row],
    sessions: table.sessions[row], client_seconds: table.client_seconds[row],
  }),
];

const Why = ({ table, row }) =>
  h(
    "div",
    { className: "why", role: "status", "aria-live": "polite" },
    h("strong", null, `Why step ${int(table.order[row])}, wave ${table.wave[row]}: `),
    table.reason[row],
    h("div", { className: "soft mono" }, `${table.kind[row]} ${table.bundle[row]}: ${table.source[row]} → ${table.destination[row] ?? NAMES[table.kind[row]]}, ${count(table.topics[row], "topic")}`),
  );

// Why not: what the plan leaves alone, by the rule that refused it.
export const LeftAlone = ({ cluster, planId }) => {
  const { data, error } = useData(ownApi(`clusters/${seg(cluster)}/plans/${seg(planId)}/rejections`));
  const [wanted, setWanted] = useState("");
  const words = useDeferredValue(wanted).toLowerCase();
  const rules = useMemo(() => (data ? byRule(data, words) : []), [data, words]);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "what was left alone" });
  if (!data.rows) return h(Notice, { tone: "good" }, "No rule refused anything.");
  return h(
    "div",
    null,
    h("div", { className: "tools" }, h("label", null, "Search bundle, broker or rule", h("input", { type: "search", value: wanted, onChange: (event) => setWanted(event.target.value) }))),
    data.rejections_in_all > data.rows && h(Notice, { tone: "warn" }, `The first ${int(data.rows)} of ${int(data.rejections_in_all)} are shown.`),
    rules.map(([rule, rows]) =>
      h(
        "details",
        { key: rule, open: rules.length <= 3 },
        h("summary", null, h("strong", null, rule), h("span", { className: "soft" }, ` ${int(rows.length)}`)),
        h(
          "ul",
          { className: "plain" },
          rows.slice(0, 200).map((row) =>
            h("li", { key: row.place }, row.bundle || row.broker ? h("code", null, [row.bundle, row.broker].filter(Boolean).join(" → ")) : h("em", null, "the whole plan"), ` ${row.detail}`),
          ),
          rows.length > 200 && h("li", { className: "soft" }, `and ${int(rows.length - 200)} more; search to narrow down`),
        ),
      ),
    ),
  );
};

function byRule(data, words) {
  const { columns, rows } = data;
  const rules = new Map();
  for (let place = 0; place < rows; place += 1) {
    const row = { place, rule: columns.rule[place], bundle: columns.bundle[place], broker: columns.broker[place], detail: columns.detail[place] };
    if (words && !`${row.rule} ${row.bundle ?? ""} ${row.broker ?? ""} ${row.detail}`.toLowerCase().includes(words)) continue;
    const known = rules.get(row.rule);
    if (known) known.push(row);
    else rules.set(row.rule, [row]);
  }
  return [...rules].sort(([a, x], [b, y]) => y.length - x.length || a.localeCompare(b));
}
