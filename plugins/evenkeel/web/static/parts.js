// The building blocks: sections, badges, bars, notices, a dialog that asks once, and a table that draws what is in view.

import { Fragment, count, h, int, percent, useEffect, useId, useMemo, useRef, useState } from "./lib.js";

let styled = false;
export function useStyle() {
  useEffect(() => {
    if (styled) return;
    styled = true;
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("app.css", import.meta.url).href;
    document.head.append(link);
  }, []);
}

export const Root = ({ children, label }) => {
  useStyle();
  return h("div", { className: "ek", role: "region", "aria-label": label }, children);
};

const TONES = {
  applied: "good", passed: "good", done: "good", inside: "good", Active: "good", open: "good", settled: "good",
  approved: "info", running: "info", planned: "info", Initial: "info",
  "refused by gate": "bad", revoked: "bad", failed: "bad", lost: "bad", critical: "bad", blocked: "bad", stopped: "bad", Inactive: "bad",
  rejected: "warn", expired: "warn", interrupted: "warn", warning: "warn", outside: "warn", Stopping: "warn", skipped: "warn",
};
export const Badge = ({ children, tone }) => h("span", { className: `badge ${tone ?? TONES[children] ?? "plain"}` }, children);

export const Section = ({ title, note, actions, children, level = 2 }) => {
  const id = useId();
  return h(
    "section",
    { "aria-labelledby": id },
    h("div", { className: "head" }, h(`h${level}`, { id }, title), note && h("p", { className: "soft" }, note), actions && h("div", { className: "actions" }, actions)),
    children,
  );
};

export const Notice = ({ tone = "info", children, role }) => h("div", { className: `notice ${tone}`, role: role ?? (tone === "bad" ? "alert" : "note") }, children);

export const Failure = ({ error }) =>
  error ? h(Notice, { tone: "bad" }, h("strong", null, `${error.message}.`), error.remedy ? ` What to do: ${error.remedy}.` : null) : null;

export const Loading = ({ what }) => h("p", { className: "soft", role: "status" }, `Loading ${what}…`);

export const Facts = ({ pairs }) =>
  h("dl", { className: "facts" }, pairs.filter(Boolean).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))));

export const Num = ({ children, ...rest }) => h("td", { className: "num", ...rest }, children);

export const Table = ({ caption, heads, children, wide }) =>
  h(
    "div",
    { className: "scroll", tabIndex: 0, role: "group", "aria-label": caption },
    h(
      "table",
      { className: wide ? "wide" : undefined },
      h("caption", { className: "hidden" }, caption),
      h("thead", null, h("tr", null, heads.map(([words, kind], place) => h("th", { key: place, scope: "col", className: kind }, words)))),
      h("tbody", null, children),
    ),
  );

// A broker's load: before above, after below, and a mark where the band ends.
export const LoadBar = ({ values, scale, name }) => {
  if (!values) return h("span", { className: "soft" }, "limit unknown");
  const [before, after, band] = values;
  const place = (share) => `${Math.min(100, (100 * share) / scale)}%`;
  const isOutside = band !== undefined && band > 0 && after > band;
  const words = after === undefined ? `${percent(before)} %` : `${percent(before)} % before, ${percent(after)} % after`;
  return h(
    "span",
    { className: "load" },
    h(
      "span",
      { className: "track", role: "img", "aria-label": `${name}: ${words}${isOutside ? ", outside the band" : ""}` },
      h("i", { className: after === undefined ? "after" : "before", style: { width: place(before) } }),
      after !== undefined && h("i", { className: isOutside ? "outside" : "after", style: { width: place(after) } }),
      band > 0 && h("i", { className: "band", style: { left: place(band) } }),
    ),
    h("span", { className: "figures" }, after === undefined ? percent(before) : `${percent(before)} → ${percent(after)}`),
  );
};

export const Legend = ({ isNow }) =>
  h(
    "p",
    { className: "legend soft", "aria-hidden": true },
    !isNow && h("span", null, h("i", { className: "before" }), "before"),
    h("span", null, h("i", { className: "after" }), isNow ? "now" : "after"),
    !isNow && h("span", null, h("i", { className: "outside" }), "outside the band"),
    !isNow && h("span", null, h("i", { className: "band" }), "end of the band"),
    h("span", null, "percent of the limit"),
  );

// Asks once, with a reason. The native dialog keeps the focus inside and closes with Escape.
export const Ask = ({ title, children, label, verb, danger, reason = true, required = true, onDo, onClose }) => {
  const box = useRef(null);
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    dialog.showModal();
    return () => dialog.open && dialog.close();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await onDo(why.trim());
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return h(
    "dialog",
    { ref: box, className: "ek ask", "aria-labelledby": id, onCancel: (event) => (busy ? event.preventDefault() : onClose()) },
    h(
      "form",
      { onSubmit: submit },
      h("h2", { id }, title),
      children,
      reason &&
        h(
          "label",
          null,
          label ?? (required ? "Reason (required)" : "Reason"),
          h("textarea", { rows: 3, maxLength: 500, required, value: why, autoFocus: true, onChange: (event) => setWhy(event.target.value) }),
        ),
      h(Failure, { error }),
      h(
        "div",
        { className: "actions" },
        h("button", { type: "button", onClick: onClose, disabled: busy }, "Cancel"),
        h("button", { type: "submit", className: danger ? "danger" : "primary", disabled: busy || (reason && required && !why.trim()) }, busy ? "Working…" : verb),
      ),
    ),
  );
};

const ROW_PX = 32;
const SPARE_ROWS = 12;

// A grid of any length of which only the rows in view exist. `items` are rows or group heads; arrows move, Enter opens.
export const VirtualGrid = ({ label, heads, items, renderRow, onOpen, selected, height = 480 }) => {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [active, setActive] = useState(0);
  const id = useId();
  const last = items.length - 1;
  const current = Math.min(active, Math.max(0, last));
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
    setActive(0);
  }, [items]);
  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
  const end = Math.min(items.length, Math.ceil((top + height) / ROW_PX) + SPARE_ROWS);
  const move = (place) => {
    const next = Math.max(0, Math.min(last, place));
    setActive(next);
    const view = box.current;
    const y = next * ROW_PX;
    if (y < view.scrollTop) view.scrollTop = y;
    else if (y + 2 * ROW_PX > view.scrollTop + view.clientHeight) view.scrollTop = y + 2 * ROW_PX - view.clientHeight;
  };
  const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
  const keys = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
  const onKeyDown = (event) => {
    if (event.key in keys) move(current + keys[event.key]);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(last);
    else if (event.key === "Enter" || event.key === " ") items[current] && onOpen(items[current], current);
    else return;
    event.preventDefault();
  };
  const rows = [];
  for (let place = first; place < end; place += 1) {
    const item = items[place];
    rows.push(
      h(
        "div",
        {
          key: item.key,
          id: `${id}-${place}`,
          role: "row",
          "aria-rowindex": place + 2,
          "aria-level": item.level ?? 1,
          "aria-selected": selected === item.key,
          "aria-expanded": item.isGroup ? item.isOpen : undefined,
          className: `row${item.isGroup ? " group" : ""}${place === current ? " active" : ""}${selected === item.key ? " selected" : ""}`,
          style: { top: place * ROW_PX },
          onClick: () => {
            setActive(place);
            onOpen(item, place);
          },
        },
        renderRow(item),
      ),
    );
  }
  return h(
    "div",
    {
      ref: box,
      className: "grid",
      role: "treegrid",
      tabIndex: 0,
      "aria-label": label,
      "aria-rowcount": items.length + 1,
      "aria-activedescendant": items.length ? `${id}-${current}` : undefined,
      style: { maxHeight: height },
      onScroll: (event) => setTop(event.currentTarget.scrollTop),
      onKeyDown,
    },
    h("div", { className: "row heads", role: "row", "aria-rowindex": 1 }, heads.map(([words, kind]) => h("div", { key: words, role: "columnheader", className: `cell ${kind ?? ""}` }, words))),
    h("div", { className: "canvas", role: "rowgroup", style: { height: items.length * ROW_PX } }, rows),
  );
};

export const Tabs = ({ tabs, chosen, onChoose, label }) =>
  h(
    "div",
    { className: "tabs", role: "tablist", "aria-label": label },
    tabs.map(([key, words]) =>
      h("button", {
        key, role: "tab", type: "button", "aria-selected": key === chosen, tabIndex: key === chosen ? 0 : -1,
        onClick: () => onChoose(key),
        onKeyDown: (event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          const place = tabs.findIndex(([name]) => name === chosen);
          const next = tabs[(place + step + tabs.length) % tabs.length][0];
          onChoose(next);
          event.currentTarget.parentElement.querySelectorAll("button")[tabs.findIndex(([name]) => name === next)].focus();
        },
      }, words),
    ),
  );

export const Pager = ({ offset, limit, hasMore, onMove }) =>
  offset || hasMore
    ? h(
        "nav",
        { className: "pager", "aria-label": "Pages" },
        h("button", { type: "button", disabled: !offset, onClick: () => onMove(Math.max(0, offset - limit)) }, "Newer"),
        h("button", { type: "button", disabled: !hasMore, onClick: () => onMove(offset + limit) }, "Older"),
      )
    : null;

export const Fold = ({ summary, open, children }) => h("details", { open }, h("summary", null, summary), children);
export { Fragment, count, int, useMemo };
