// The lists: plans and runs of a cluster, newest first.

import { CALM_MS, LIVE_MS, Link, RESOURCES, ago, h, int, ownApi, percent, seconds, seg, shortId, useData, useState } from "./lib.js";
import { Badge, Failure, Loading, Notice, Num, Pager, Section, Table } from "./parts.js";

const PAGE = 25;

export const Plans = ({ name }) => {
  const [offset, setOffset] = useState(0);
  const { data, error } = useData(ownApi(`clusters/${seg(name)}/plans?offset=${offset}&limit=${PAGE}`), CALM_MS);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "plans" });
  return h(
    Section,
    { title: `Plans for ${name}`, note: "newest first" },
    h(Failure, { error }),
    data.plans.length === 0
      ? h(Notice, null, "No plan yet. Trigger the Dag rebalance_window.")
      : h(
          Table,
          {
            caption: `Plans for ${name}`,
            heads: [["Plan"], ["State"], ["Made"], ["By"], ["Steps", "num"], ["Sessions", "num"], ["Client-seconds", "num"], ...RESOURCES.map(([, words]) => [`${words}, peak %`, "num"]), ["Run"]],
          },
          data.plans.map((plan) => h(PlanRow, { key: plan.plan_id, plan, name })),
        ),
    h(Pager, { offset, limit: PAGE, hasMore: data.has_more, onMove: setOffset }),
  );
};

const PlanRow = ({ plan, name }) =>
  h(
    "tr",
    null,
    h("th", { scope: "row" }, h(Link, { to: { cluster: name, view: "plan", plan: plan.plan_id }, className: "mono" }, shortId(plan.plan_id))),
    h("td", null, h(Badge, null, plan.state), plan.why && h("div", { className: "soft" }, plan.why)),
    h("td", { title: plan.stored_at }, ago(plan.stored_at)),
    h("td", null, plan.strategy),
    h(Num, null, int(plan.steps.total)),
    h(Num, null, int(plan.sessions)),
    h(Num, null, seconds(plan.client_seconds)),
    RESOURCES.map(([key]) => h(Num, { key }, plan.balance[key] ? `${percent(plan.balance[key].before.max)} → ${percent(plan.balance[key].after.max)}` : "–")),
    h("td", null, plan.run_id ? h(Link, { to: { cluster: name, view: "run", run: plan.run_id }, className: "mono" }, plan.run_id) : ""),
  );

export const Runs = ({ name }) => {
  const [offset, setOffset] = useState(0);
  const { data, error } = useData(ownApi(`clusters/${seg(name)}/runs?offset=${offset}&limit=${PAGE}`), 5 * LIVE_MS);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "runs" });
  return h(
    Section,
    { title: `Runs on ${name}`, note: "the last first" },
    h(Failure, { error }),
    data.live_error && h(Notice, { tone: "warn" }, `Only ended runs are listed: ${data.live_error}.`),
    data.runs.length === 0
      ? h(Notice, null, "Nothing has been applied yet.")
      : h(
          Table,
          { caption: `Runs on ${name}`, heads: [["Run"], ["State"], ["Started"], ["Plan"], ["Settled", "num"], ["Skipped", "num"], ["Failed", "num"], ["Detail"]] },
          data.runs.map((run) =>
            h(
              "tr",
              { key: run.run_id },
              h("th", { scope: "row" }, h(Link, { to: { cluster: name, view: "run", run: run.run_id }, className: "mono" }, run.run_id)),
              h("td", null, h(Badge, null, run.state)),
              h("td", { title: run.started_at }, ago(run.started_at)),
              h("td", null, h(Link, { to: { cluster: name, view: "plan", plan: run.plan_id }, className: "mono" }, shortId(run.plan_id))),
              h(Num, null, int(run.settled)),
              h(Num, null, int(run.skipped)),
              h(Num, null, int(run.failed)),
              h("td", { className: "soft" }, run.detail),
            ),
          ),
        ),
    h(Pager, { offset, limit: PAGE, hasMore: data.has_more, onMove: setOffset }),
  );
};

