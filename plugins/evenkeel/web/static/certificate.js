// How good the plan is against what is provable, and what a shorter one would be worth.

import { RESOURCES, call, coreApi, count, h, int, ratio, seconds, seg, useData, useId, useState } from "./lib.js";
import { Ask, Notice, Num, Section, Table } from "./parts.js";

export const Certificate = ({ plan }) => {
  const { bounds, gap } = plan;
  if (!bounds) return h(Section, { title: "Certificate", note: "The steps were chosen by hand, so nothing was searched and nothing is proved." });
  const rows = [
    ["Moves", int(plan.steps.transfers + plan.steps.unloads), int(bounds.moves), gap.moves],
    ["Sessions that reconnect", int(plan.disruption.sessions), int(bounds.sessions), gap.sessions],
    ...RESOURCES.filter(([key]) => bounds.max_over_mean[key] !== undefined && plan.balance[key]).map(([key, words]) => [
      `${words}, max/mean after`, ratio(plan.balance[key].after.max_over_mean), ratio(bounds.max_over_mean[key]), gap.max_over_mean[key],
    ]),
  ];
  return h(
    Section,
    { title: "Certificate", note: "No plan that reaches the same band can do better than these bounds." },
    h(
      Table,
      { caption: "This plan against lower bounds that hold for any plan", heads: [["Measure"], ["This plan", "num"], ["At least", "num"], ["Ratio", "num"]] },
      rows.map(([name, taken, bound, share]) =>
        h("tr", { key: name }, h("th", { scope: "row" }, name), h(Num, null, taken), h(Num, null, bound), h(Num, null, share === null || share === undefined ? "–" : ratio(share))),
      ),
    ),
  );
};

const W = 640, H = 220, LEFT = 44, BOTTOM = 26, TOP = 8;

export const Curve = ({ plan, dagId, canEdit }) => {
  const points = plan.curve;
  const [place, setPlace] = useState(Math.max(0, points.length - 1));
  const [asks, setAsks] = useState(false);
  const [started, setStarted] = useState("");
  const id = useId();
  const takesBudget = useBudgetParameter(dagId);
  if (points.length < 2) return null;
  const point = points[Math.min(place, points.length - 1)];
  const most = points[points.length - 1].moves || 1;
  const worst = Math.max(...points.map((each) => each.worst));
  const least = Math.min(1, ...points.map((each) => each.worst));
  const x = (moves) => LEFT + ((W - LEFT - 8) * moves) / most;
  const y = (value) => TOP + (H - TOP - BOTTOM) * (1 - (value - least) / Math.max(1e-9, worst - least));
  const line = (key) => points.map((each, i) => `${i ? "L" : "M"}${x(each[key]).toFixed(1)} ${y(each.worst).toFixed(1)}`).join("");
  const band = 1 + Number(plan.tolerance ?? 0);
  const isAll = point.moves === most;
  const said = `The first ${count(point.moves, "move")} of ${int(most)}: worst broker at ${ratio(point.worst)} times the best possible peak, ${int(point.sessions)} sessions, ${seconds(point.client_seconds)} client-seconds. Any plan needs at least ${count(point.least_moves, "move")} for that.`;
  const replan = async () => {
    const answer = await call(coreApi(`dags/${seg(dagId)}/dagRuns`), { method: "POST", body: { logical_date: null, conf: { max_steps: point.moves } } });
    setStarted(answer.dag_run_id);
  };
  return h(
    Section,
    { title: "A shorter plan", note: "What the first moves achieve. 1 is the best peak that any placement could reach." },
    h(
      "div",
      { className: "curve" },
      h(
        "svg",
        { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Imbalance against moves, from ${ratio(points[0].worst)} with no move to ${ratio(points[points.length - 1].worst)} with ${int(most)}` },
        band > least && band < worst && h("path", { d: `M${LEFT} ${y(band)}H${W - 8}`, stroke: "var(--ek-good)", strokeDasharray: "4 4", fill: "none" }),
        band > least && band < worst && h("text", { x: W - 10, y: y(band) - 4, textAnchor: "end" }, `band, ${ratio(band)}`),
        h("path", { d: line("least_moves"), stroke: "var(--ek-before)", strokeWidth: 1.5, fill: "none" }),
        h("path", { d: line("moves"), stroke: "var(--ek-after)", strokeWidth: 2, fill: "none" }),
        h("circle", { cx: x(point.moves), cy: y(point.worst), r: 5, fill: "var(--ek-after)" }),
        h("path", { d: `M${LEFT} ${TOP}V${H - BOTTOM}H${W - 8}`, stroke: "var(--ek-line)", fill: "none" }),
        h("text", { x: LEFT - 6, y: TOP + 8, textAnchor: "end" }, worst.toFixed(2)),
        h("text", { x: LEFT - 6, y: H - BOTTOM, textAnchor: "end" }, least.toFixed(2)),
        h("text", { x: LEFT, y: H - 8 }, "0 moves"),
        h("text", { x: W - 8, y: H - 8, textAnchor: "end" }, `${int(most)} moves`),
      ),
      h(
        "div",
        null,
        h("label", { htmlFor: id }, `Stop after ${count(point.moves, "move")}`),
        h("input", { id, type: "range", min: 0, max: points.length - 1, value: Math.min(place, points.length - 1), "aria-valuetext": count(point.moves, "move"), onChange: (event) => setPlace(Number(event.target.value)) }),
        h("p", { role: "status", "aria-live": "polite", style: { marginTop: 8 } }, said),
        h("p", { className: "soft" }, "Blue: this plan. Grey: the fewest moves that any plan needs to get as far."),
        canEdit && takesBudget && !isAll && point.moves > 0 && h("div", { className: "actions", style: { marginTop: 8 } }, h("button", { type: "button", onClick: () => setAsks(true) }, `Plan again with at most ${count(point.moves, "step")}`)),
        started && h(Notice, { tone: "good" }, `Run ${started} of ${dagId} has been triggered.`),
        asks && h(Ask, { title: `Plan again with at most ${count(point.moves, "step")}?`, verb: "Plan again", reason: false, onDo: replan, onClose: () => setAsks(false) }, h("p", null, `A new run of ${dagId} makes a plan with that budget and asks for approval. This plan stays as it is.`)),
      ),
    ),
  );
};

// Whether the Dag can be told how many steps a plan may have; without such a parameter nothing is offered.
function useBudgetParameter(dagId) {
  const { data } = useData(dagId ? coreApi(`dags/${seg(dagId)}/details`) : null);
  return Boolean(data?.params && "max_steps" in data.params);
}

export const Counterfactual = ({ plan }) =>
  plan.counterfactual.length === 0
    ? null
    : h(
        Section,
        { title: "What Pulsar would do", note: "Its own strategies, replayed on the same snapshot." },
        h(
          Table,
          { caption: "What Pulsar's own strategies would do", heads: [["Strategy"], ["Unloads", "num"], ["Sessions", "num"], ["Client-seconds", "num"], ["Worst before", "num"], ["Worst after", "num"], ["Ends because"]] },
          plan.counterfactual.map((each) =>
            h(
              "tr",
              { key: each.strategy },
              h("th", { scope: "row" }, each.strategy),
              h(Num, null, int(each.unloads)),
              h(Num, null, int(each.moved_sessions)),
              h(Num, null, seconds(each.client_seconds)),
              h(Num, null, ratio(each.worst_before)),
              h(Num, null, ratio(each.worst_after)),
              h("td", null, each.stopped_because),
            ),
          ),
        ),
      );

