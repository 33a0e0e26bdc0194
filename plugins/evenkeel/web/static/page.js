// The page in Airflow's menu. Where it is, the query of the address says.

import { Link, h, shortId, usePlace } from "./lib.js";
import { Root } from "./parts.js";
import { ClusterPage, Clusters } from "./clusters.js";
import { Plans, Runs } from "./plans.js";
import { Plan } from "./plan.js";
import { Run } from "./run.js";

const Crumbs = ({ place }) => {
  const { cluster, view, plan, run } = place;
  if (!cluster) return null;
  return h(
    "nav",
    { className: "crumbs", "aria-label": "Where you are" },
    h(Link, { to: {} }, "Clusters"),
    "/",
    h(Link, { to: { cluster } }, cluster),
    (view === "plans" || view === "plan") && [" / ", h(Link, { key: "plans", to: { cluster, view: "plans" } }, "Plans")],
    (view === "runs" || view === "run") && [" / ", h(Link, { key: "runs", to: { cluster, view: "runs" } }, "Runs")],
    plan && [" / ", h("span", { key: "plan", className: "mono", "aria-current": "page" }, shortId(plan))],
    run && [" / ", h("span", { key: "run", className: "mono", "aria-current": "page" }, run)],
  );
};

const Page = () => {
  const [place] = usePlace();
  const { cluster, view, plan, run } = place;
  let content = h(Clusters);
  if (cluster && view === "plans") content = h(Plans, { name: cluster });
  else if (cluster && view === "runs") content = h(Runs, { name: cluster });
  else if (cluster && view === "plan" && plan) content = h(Plan, { key: plan, cluster, planId: plan });
  else if (cluster && view === "run" && run) content = h(Run, { key: run, cluster, runId: run });
  else if (cluster) content = h(ClusterPage, { name: cluster });
  return h(Root, { label: "Evenkeel" }, h(Crumbs, { place }), content);
};

globalThis.AirflowPlugin = Page;
