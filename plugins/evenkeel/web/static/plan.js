// One plan: the verdict in a line, what it does to each broker, why and why not, and what was decided.

import { CALM_MS, Link, RESOURCES, ago, count, h, int, ownApi, percent, ratio, seconds, secondsSince, seg, shortId, time, useData, useMemo, useState } from "./lib.js";
import { Badge, Facts, Failure, Legend, LoadBar, Loading, Notice, Num, Section, Table, Tabs } from "./parts.js";
import { Approval } from "./approval.js";
import { Certificate, Counterfactual, Curve } from "./certificate.js";
import { LeftAlone, Steps } from "./steps.js";
import { RunProgress } from "./run.js";

const OLD_SNAPSHOT_S = 1800;
const VIEWS = [["balance", "Balance"], ["steps", "Steps"], ["left", "Left alone"], ["proof", "Certificate"], ["gate", "Gate and decisions"], ["report", "Report"]];

export const Plan = ({ cluster, planId, dagId, runId, isTab }) => {
  const base = `clusters/${seg(cluster)}`;
  const { data: plan, error, reload } = useData(ownApi(`${base}/plans/${seg(planId)}`), CALM_MS);
  const { data: place } = useData(ownApi(base));
  const [view, setView] = useState("balance");
  if (!plan) return error ? h(Failure, { error }) : h(Loading, { what: "the plan" });
  const lastRun = plan.live_run_id ?? plan.runs.filter((run) => !run.dry_run).at(-1)?.run_id;
  return h(
    "div",
    null,
    h("div", { className: "head" }, h(isTab ? "h2" : "h1", null, `Cluster ${plan.cluster}: ${plan.headline}`), h(Badge, null, plan.state)),
    h("ul", { className: "plain" }, plan.sentences.map((sentence) => h("li", { key: sentence }, sentence))),
    h(Failure, { error }),
    h(Warnings, { plan }),
    h(Approval, { plan, dagId, runId, onAnswered: reload }),
    lastRun && h(RunProgress, { cluster, runId: lastRun, canEdit: place?.can_edit, isShort: true, onChange: reload }),
    h(Figures, { plan }),
    h(Tabs, { tabs: VIEWS.filter(([key]) => key !== "report" || plan.has_report), chosen: view, onChoose: setView, label: "Parts of the plan" }),
    h(
      "div",
      { role: "tabpanel", "aria-label": VIEWS.find(([key]) => key === view)[1], style: { marginTop: 12 } },
      view === "balance" && h(Balance, { plan }),
      view === "steps" && h(Steps, { cluster, planId }),
      view === "left" && h(LeftAlone, { cluster, planId }),
      view === "proof" && h("div", null, h(Certificate, { plan }), h(Curve, { plan, dagId: place?.dag_id, canEdit: place?.can_edit }), h(Counterfactual, { plan }), h(Pools, { plan })),
      view === "gate" && h(Decisions, { plan }),
      view === "report" && h("iframe", { className: "report", title: `Report of plan ${shortId(planId)}`, sandbox: "allow-same-origin", src: ownApi(`${base}/plans/${seg(planId)}/report`) }),
    ),
  );
};

const Warnings = ({ plan }) => {
  const age = plan.taken_at ? secondsSince(plan.taken_at) : 0;
  const failed = plan.gate?.checks.filter((check) => !check.passed) ?? [];
  const isOpen = ["planned", "approved", "unchecked"].includes(plan.state);
  return h(
    "div",
    null,
    plan.revocation && h(Notice, { tone: "bad" }, `The plan is ${plan.revocation}.`),
    failed.filter((check) => check.severity === "critical").map((check, i) => h(Notice, { key: i, tone: "bad" }, `The gate blocks the plan: ${check.detail}.`)),
    failed.filter((check) => check.severity !== "critical").map((check, i) => h(Notice, { key: i, tone: "warn" }, `${check.detail}.`)),
    isOpen && age > OLD_SNAPSHOT_S && h(Notice, { tone: "warn" }, `The snapshot was taken ${ago(plan.taken_at)}. Steps that no longer hold are skipped when the plan is applied.`),
    plan.truncated && h(Notice, { tone: "warn" }, "The search hit its deadline; this is the best plan it found."),
    plan.unreadable.map((words) => h(Notice, { key: words, tone: "warn" }, words)),
  );
};

const Figures = ({ plan }) =>
  h(
    Facts,
    {
      pairs: [
        ["Plan", h("code", { title: plan.plan_id }, shortId(plan.plan_id))],
        ["Steps", `${int(plan.steps.transfers)} transfers, ${int(plan.steps.splits)} splits, ${int(plan.steps.unloads)} unloads`],
        ["Waves", int(plan.disruption.waves.length)],
        ["Sessions that reconnect", int(plan.disruption.sessions)],
        ["Disruption", `${seconds(plan.disruption.client_seconds)} client-seconds`],
        ["Snapshot", plan.taken_at ? `${ago(plan.taken_at)}, ${plan.snapshot_id}` : plan.snapshot_id],
        ["Strategy", `${plan.strategy}, version ${plan.strategy_version}`],
        ["Expires", `${time(plan.expires_at)}, ${ago(plan.expires_at)}`],
        ["Gate", plan.gate ? h(Badge, null, plan.gate.passed ? "passed" : "blocked") : "not judged yet"],
      ],
    },
  );

const Balance = ({ plan }) => {
  const known = RESOURCES.filter(([key]) => plan.balance[key]);
  const ranked = useMemo(() => {
    const peak = (row) => Math.max(0, ...known.map(([key]) => Math.max(...(row[key]?.slice(0, 2) ?? [0]))));
    return [...plan.brokers].sort((a, b) => peak(b) - peak(a) || a.broker.localeCompare(b.broker));
  }, [plan]);
  const scale = Math.max(0.05, ...ranked.flatMap((row) => known.flatMap(([key]) => row[key] ?? [])));
  return h(
    "div",
    null,
    h(
      "div",
      { className: "cards" },
      known.map(([key, words]) => {
        const { before, after } = plan.balance[key];
        return h(
          "div",
          { className: "card", key },
          h("div", { className: "soft" }, `${words}, busiest broker`),
          h("div", { className: "big" }, `${percent(before.max)} → ${percent(after.max)}`, h("span", { className: "unit" }, " % of its limit")),
          h("div", { className: "soft" }, `mean ${percent(after.mean)} %, max/mean ${ratio(before.max_over_mean)} → ${ratio(after.max_over_mean)}`),
        );
      }),
    ),
    h(
      Section,
      { title: "Brokers", note: `${count(ranked.length, "broker")}, the busiest first` },
      h(Legend, null),
      h(
        Table,
        { caption: "Load of each broker before and after, in percent of its limit", heads: [["Broker"], ["Leave", "num"], ["Arrive", "num"], ...known.map(([, words]) => [`${words}, %`])] },
        ranked.slice(0, 500).map((row) =>
          h(
            "tr",
            { key: row.broker },
            h("th", { scope: "row", className: "name" }, row.broker),
            h(Num, null, int(row.leaves)),
            h(Num, null, int(row.arrives)),
            known.map(([key, words]) => h("td", { key }, h(LoadBar, { values: row[key], scale, name: `${row.broker}, ${words}` }))),
          ),
        ),
      ),
      ranked.length > 500 && h("p", { className: "soft" }, `${count(ranked.length - 500, "broker")} with less load not shown here; the report has all.`),
    ),
    plan.disruption.tenants.length > 0 &&
      h(
        Section,
        { title: "Cost to clients, by tenant", note: `${count(plan.disruption.tenants_in_all, "tenant")} in all` },
        h(
          Table,
          { caption: "Cost to clients by tenant", heads: [["Tenant"], ["Steps", "num"], ["Sessions", "num"], ["Client-seconds", "num"]] },
          plan.disruption.tenants.map((each) =>
            h("tr", { key: each.tenant }, h("th", { scope: "row" }, each.tenant), h(Num, null, int(each.steps)), h(Num, null, int(each.sessions)), h(Num, null, seconds(each.client_seconds))),
          ),
        ),
      ),
  );
};

const Pools = ({ plan }) =>
  plan.pools.length === 0
    ? null
    : h(
        Section,
        { title: "Pools", note: `${count(plan.pools_in_all, "pool")}; those outside the band first` },
        h(
          Table,
          { caption: "Pools and what limits them", heads: [["Pool"], ["Brokers", "num"], ["Bundles", "num"], ["Moves", "num"], ["At least", "num"], ["Band"], ["What would help"]] },
          [...plan.pools].sort((a, b) => a.reaches_band - b.reaches_band || a.name.localeCompare(b.name)).map((pool) =>
            h(
              "tr",
              { key: pool.pool || pool.name },
              h("th", { scope: "row" }, pool.name),
              h(Num, null, int(pool.brokers)),
              h(Num, null, int(pool.bundles)),
              h(Num, null, int(pool.moves)),
              h(Num, null, int(pool.bound_moves)),
              h("td", null, h(Badge, null, pool.reaches_band ? "inside" : "outside"), !pool.reaches_band && h("div", { className: "soft" }, pool.limited_by)),
              h("td", null, pool.advice.join(" ")),
            ),
          ),
        ),
      );

const Decisions = ({ plan }) =>
  h(
    "div",
    null,
    h(
      Section,
      { title: "Decisions" },
      plan.approval &&
        h(Notice, { tone: "good" }, `Approved by ${plan.approval.approved_by} (${plan.approval.account}), ${time(plan.approval.approved_at)}, ${plan.approval.is_signed ? "signed" : "unsigned"}. ${plan.approval.how}`),
      plan.refusals.map((each, i) => h(Notice, { key: i, tone: "info" }, [each.answer, each.answered_by, time(each.answered_at), each.reason].filter(Boolean).join(", "))),
      !plan.approval && plan.refusals.length === 0 && h("p", { className: "soft" }, "Nobody has decided yet."),
      plan.runs.map((run) => h("p", { key: run.run_id }, h(Link, { to: { cluster: plan.cluster, view: "run", run: run.run_id } }, `Run ${run.run_id}`), ` ${run.state}${run.dry_run ? ", dry run" : ""}`)),
    ),
    h(
      Section,
      { title: "Gate", note: plan.gate ? `${count(plan.gate.checks.length, "check")}, ${count(plan.gate.warnings, "warning")}` : "" },
      plan.gate
        ? h(
            Table,
            { caption: "Checks of the gate", heads: [["Check"], ["Result"], ["Severity"], ["Detail"]] },
            [...plan.gate.checks].sort((a, b) => a.passed - b.passed).map((check, i) =>
              h(
                "tr",
                { key: i },
                h("th", { scope: "row" }, check.description || check.name),
                h("td", null, h(Badge, { tone: check.passed ? "good" : check.severity === "critical" ? "bad" : "warn" }, check.passed ? "passed" : "failed")),
                h("td", null, check.severity),
                h("td", { className: "soft" }, check.detail),
              ),
            ),
          )
        : h("p", { className: "soft" }, "The plan has not been judged yet."),
    ),
  );

