// The clusters: balance now, what operators have ordered, and the next windows.

import { CALM_MS, Link, RESOURCES, ago, call, count, h, int, ownApi, percent, ratio, seg, shortId, time, useData, useState } from "./lib.js";
import { Ask, Badge, Failure, Legend, LoadBar, Loading, Notice, Num, Section, Table } from "./parts.js";

export const Clusters = () => {
  const { data, error, reload } = useData(ownApi("clusters"), CALM_MS);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "clusters" });
  return h(
    "div",
    null,
    h("h1", null, "Evenkeel"),
    h("p", { className: "soft" }, "Balance of the brokers, plans and runs, by cluster."),
    h(Failure, { error }),
    data.clusters.length === 0 && h(Notice, null, "There is no cluster that you may see."),
    data.clusters.map((cluster) => h(ClusterCard, { key: cluster.cluster, cluster, reload })),
  );
};

export const ClusterPage = ({ name }) => {
  const { data, error, reload } = useData(ownApi(`clusters/${seg(name)}`), CALM_MS);
  if (!data) return error ? h(Failure, { error }) : h(Loading, { what: "the cluster" });
  return h(ClusterCard, { cluster: data, reload, isPage: true });
};

const ClusterCard = ({ cluster, reload, isPage }) => {
  const name = cluster.cluster;
  if (cluster.error) return h(Section, { title: name }, h(Notice, { tone: "bad" }, `${cluster.error}. What to do: ${cluster.remedy}.`));
  const links = h(
    "div",
    { className: "actions" },
    h(Link, { to: { cluster: name, view: "plans" } }, "Plans"),
    h(Link, { to: { cluster: name, view: "runs" } }, "Runs"),
  );
  return h(
    Section,
    { title: `Cluster ${name}`, note: cluster.snapshot ? `${count(cluster.snapshot.brokers.length, "broker")}, ${count(cluster.snapshot.bundles, "bundle")}` : "", actions: links },
    h(Orders, { cluster, reload }),
    cluster.snapshot ? h(BalanceNow, { snapshot: cluster.snapshot, now: cluster.now, isLong: isPage }) : h(Notice, null, "No snapshot of the last hours has passed its gate. Run the Dag collect_load."),
    h(Windows, { cluster }),
  );
};

// What stands in the way of a run, or waits to be released: kill switch, marks, switches, the writer at work.
export const Orders = ({ cluster, reload }) => {
  const { live, can_edit: canEdit, cluster: name } = cluster;
  const [asks, setAsks] = useState(null);
  const order = (verb) => async (reason) => {
    await call(ownApi(`clusters/${seg(name)}/${verb}`), { method: "POST", body: { reason } });
    reload();
  };
  return h(
    "div",
    { className: "orders" },
    live.error && h(Notice, { tone: "warn" }, `ZooKeeper cannot be read now: ${live.error}.`),
    live.stop &&
      h(
        Notice,
        { tone: "bad", role: "status" },
        h("strong", null, "All writing is stopped. "),
        `${live.stop.who}${live.stop.when ? `, ${time(live.stop.when)}` : ""}${live.stop.reason ? `: ${live.stop.reason}` : ""}`,
        canEdit && h("div", { className: "actions" }, h("button", { type: "button", onClick: () => setAsks("resume") }, "Allow writing again")),
      ),
    live.writer &&
      h(
        Notice,
        { tone: "info", role: "status" },
        h("strong", null, "A run is under way. "),
        live.writer.plan_id ? h(Link, { to: { cluster: name, view: "plan", plan: live.writer.plan_id } }, `Plan ${shortId(live.writer.plan_id)}`) : null,
        live.writer.epoch !== null && live.writer.plan_id
          ? h("span", null, ", ", h(Link, { to: { cluster: name, view: "run", run: runId(live.writer) } }, "watch it"))
          : null,
      ),
    live.switches
      .filter((each) => !each.writer_is_alive)
      .map((each) =>
        h(Notice, { key: each.plan_id, tone: "warn" }, `Pulsar's own balancer has been off since ${time(each.since)}: the writer of plan ${shortId(each.plan_id)} is gone. The Dag collect_load restores it.`),
      ),
    live.marks.length > 0 &&
      h(
        Notice,
        { tone: "warn" },
        h("strong", null, `${count(live.marks.length, "broker")} marked to be drained: `),
        live.marks.map((mark) => `${mark.broker} (${mark.who}${mark.reason ? `: ${mark.reason}` : ""})`).join(", "),
      ),
    canEdit && !live.stop && !live.error && h("div", { className: "actions" }, h("button", { type: "button", onClick: () => setAsks("stop") }, "Stop all writing")),
    asks === "stop" && h(StopDialog, { name, onDo: order("stop"), onClose: () => setAsks(null) }),
    asks === "resume" &&
      h(Ask, { title: `Allow writing to ${name} again?`, verb: "Allow writing", onDo: order("resume"), onClose: () => setAsks(null) }, h("p", null, "Runs may start again. A run that was stopped goes on only when its task is cleared.")),
  );
};

export const StopDialog = ({ name, onDo, onClose }) =>
  h(
    Ask,
    { title: `Stop all writing to ${name}?`, verb: "Stop now", danger: true, onDo, onClose },
    h("p", null, "No further step begins. Steps in flight settle, and a run under way can be resumed later. Nothing can be written to this cluster until somebody allows it again."),
  );

export const runId = (writer) => `${shortId(writer.plan_id)}-${String(writer.epoch).padStart(6, "0")}`;

const BalanceNow = ({ snapshot, now, isLong }) => {
  const known = RESOURCES.filter(([key]) => snapshot.balance[key]);
  const peak = (broker) => Math.max(0, ...known.map(([key]) => broker[key] ?? 0));
  const ranked = [...snapshot.brokers].sort((a, b) => peak(b) - peak(a) || a.broker.localeCompare(b.broker));
  const shown = isLong ? ranked : ranked.slice(0, 12);
  const scale = Math.max(1, ...ranked.map(peak));
  return h(
    "div",
    null,
    h(
      "div",
      { className: "cards" },
      known.map(([key, words]) => {
        const spread = snapshot.balance[key];
        return h(
          "div",
          { className: "card", key },
          h("div", { className: "soft" }, `${words}, busiest broker`),
          h("div", { className: "big" }, percent(spread.max), h("span", { className: "unit" }, " % of its limit")),
          h("div", { className: "soft" }, `mean ${percent(spread.mean)} %, max/mean ${ratio(spread.max_over_mean)}`),
        );
      }),
    ),
    h("p", { className: "soft", style: { margin: "8px 0" } }, `Snapshot ${snapshot.snapshot_id}, taken ${ago(snapshot.taken_at, now)}.`),
    snapshot.without_report.length > 0 && h(Notice, { tone: "warn" }, `No load report from ${snapshot.without_report.join(", ")}.`),
    h(Legend, { isNow: true }),
    h(
      Table,
      { caption: "Load of each broker now, the busiest first", heads: [["Broker"], ["State"], ["Bundles", "num"], ...known.map(([, words]) => [`${words}, %`])] },
      shown.map((broker) =>
        h(
          "tr",
          { key: broker.broker },
          h("th", { scope: "row", className: "name" }, broker.broker),
          h("td", null, h(Badge, null, broker.state)),
          h(Num, null, int(broker.bundles)),
          known.map(([key, words]) => h("td", { key }, h(LoadBar, { values: broker[key] === null ? null : [broker[key]], scale, name: `${broker.broker}, ${words}` }))),
        ),
      ),
    ),
    ranked.length > shown.length && h("p", { className: "soft" }, `${count(ranked.length - shown.length, "broker")} with less load not shown here.`),
  );
};

const Windows = ({ cluster }) =>
  h(
    "div",
    { style: { marginTop: 12 } },
    h("h3", null, "Next windows"),
    cluster.windows_error && h(Notice, { tone: "warn" }, cluster.windows_error),
    !cluster.windows.length && !cluster.windows_error
      ? h("p", { className: "soft" }, "None is configured: rebalancing is triggered by hand.")
      : h(
          "ul",
          { className: "plain" },
          cluster.windows.map((window) =>
            h(
              "li",
              { key: window.opens },
              h(Badge, { tone: window.closed_because ? "warn" : window.is_open ? "good" : "plain" }, window.closed_because ? "closed" : window.is_open ? "open" : "opens"),
              ` ${window.name}: ${time(window.opens)} to ${time(window.closes)}`,
              h("span", { className: "soft" }, window.closed_because ? `, ${window.closed_because}` : `, ${ago(window.opens, cluster.now)}`),
            ),
          ),
        ),
  );

