// The tab on a Dag run: the plan of that run, found by what its tasks returned. Other Dags have none.

import { CALM_MS, call, coreApi, h, seg, useData, useEffect, useState } from "./lib.js";
import { Failure, Loading, Root } from "./parts.js";
import { Plan } from "./plan.js";

const TASKS = ["check_plan", "check_rollback", "apply_plan"];
const MOST_TASKS = 100;

const Tab = ({ dagId, runId }) => {
  const base = `dags/${seg(dagId)}/dagRuns/${seg(runId)}/taskInstances`;
  const { data, error } = useData(coreApi(`${base}?limit=${MOST_TASKS}`), CALM_MS);
  // A task in a group is named after the group too.
  const done = (data?.task_instances ?? []).filter((task) => TASKS.includes(task.task_id.split(".").at(-1)) && task.state === "success");
  const known = done.map((task) => `${task.task_id}/${task.try_number}`).join();
  const [found, setFound] = useState({ key: null, plan: null, error: null });
  useEffect(() => {
    if (!known) return undefined;
    let isWanted = true;
    const names = known.split(",").map((each) => each.slice(0, each.lastIndexOf("/")));
    Promise.all(names.map((name) => readPlan(base, name))).then(
      (values) => isWanted && setFound({ key: known, plan: values.find((value) => value?.cluster) ?? null, error: null }),
      (problem) => isWanted && setFound({ key: known, plan: null, error: problem }),
    );
    return () => {
      isWanted = false;
    };
  }, [base, known]);
  let content;
  if (!data) content = error ? h(Failure, { error }) : h(Loading, { what: "the run" });
  else if (known && found.key !== known && !found.plan) content = h(Loading, { what: "the plan" });
  else if (found.error) content = h(Failure, { error: found.error });
  else if (!found.plan) content = h("p", { className: "soft" }, hasTasks(data) ? "No plan here yet." : "No plan here.");
  else content = h(Plan, { key: found.plan.plan_id, cluster: found.plan.cluster, planId: found.plan.plan_id, dagId, runId, isTab: true });
  return h(Root, { label: "Plan" }, content);
};

const hasTasks = (data) => data.task_instances.some((task) => TASKS.includes(task.task_id.split(".").at(-1)));

async function readPlan(base, name) {
  try {
    const entry = await call(coreApi(`${base}/${seg(name)}/xcomEntries/return_value?deserialize=false&stringify=false`));
    const value = typeof entry.value === "string" ? JSON.parse(entry.value) : entry.value;
    return value && typeof value === "object" && typeof value.plan_id === "string" ? value : null;
  } catch (error) {
    if (error.status === 404 || error instanceof SyntaxError) return null;
    throw error;
  }
}

globalThis.AirflowPlugin = Tab;
