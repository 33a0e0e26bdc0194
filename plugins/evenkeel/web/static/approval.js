// Approve or reject where Airflow asks about this very plan. The answer goes to Airflow, which records who gave it.

import { CALM_MS, Router, call, coreApi, h, seg, time, useData, useState } from "./lib.js";
import { Ask, Failure, Notice } from "./parts.js";

const APPROVE = "Approve", REJECT = "Reject";
const MOST_QUESTIONS = 100;

export const Approval = ({ plan, dagId, runId, onAnswered }) => {
  const dag = seg(dagId ?? "~"), run = seg(runId ?? "~");
  const { data, error, reload } = useData(coreApi(`dags/${dag}/dagRuns/${run}/hitlDetails?response_received=false&limit=${MOST_QUESTIONS}`), CALM_MS);
  const [asks, setAsks] = useState(null);
  const [said, setSaid] = useState("");
  const question = data?.hitl_details?.find((each) => each.params?.plan_id?.value === plan.plan_id && each.task_instance.state === "awaiting_input");
  const status = h("div", { role: "status", "aria-live": "polite" }, said && h(Notice, { tone: "good" }, said));
  if (error) return error.status === 403 ? status : h(Failure, { error });
  if (!question) return status;
  const task = question.task_instance;
  const answer = (option) => async (reason) => {
    const fields = Object.fromEntries(Object.entries(question.params).map(([name, field]) => [name, field.value]));
    if (reason) fields.reason = reason;
    const base = `dags/${seg(task.dag_id)}/dagRuns/${seg(task.dag_run_id)}`;
    const path = `${base}/taskInstances/${seg(task.task_id)}/${task.map_index}/hitlDetails`;
    await call(coreApi(path), { method: "PATCH", body: { chosen_options: [option], params_input: fields } });
    setSaid(option === APPROVE ? "Approved. Airflow goes on with the run." : "Rejected. The run ends without a change.");
    reload();
    onAnswered();
  };
  const isLate = Boolean(plan.expires_at && Date.parse(plan.expires_at) < Date.now());
  return h(
    "div",
    null,
    status,
    h(
      Notice,
      { tone: "info" },
      h("strong", null, "Airflow asks whether to apply this plan. "),
      h(Router.Link, { to: `/dags/${seg(task.dag_id)}/runs/${seg(task.dag_run_id)}` }, `${task.dag_id}, ${task.dag_run_id}`),
      h("div", null, "No response counts as a rejection.", plan.expires_at ? ` The plan expires ${time(plan.expires_at)}.` : ""),
      plan.marks.length > 0 && h("div", null, `Marked to be drained: ${plan.marks.join(", ")}.`),
      h(
        "div",
        { className: "actions" },
        h("button", { type: "button", className: "primary", disabled: isLate, onClick: () => setAsks(APPROVE) }, "Approve…"),
        h("button", { type: "button", onClick: () => setAsks(REJECT) }, "Reject…"),
        isLate && h("span", null, "The plan has expired and can only be rejected."),
      ),
    ),
    asks === APPROVE &&
      h(Ask, { title: `Approve plan ${plan.plan_id.slice(0, 12)}?`, verb: "Approve", required: false, label: "Remark (optional)", onDo: answer(APPROVE), onClose: () => setAsks(null) },
        h("p", null, `${plan.headline[0].toUpperCase()}${plan.headline.slice(1)} on cluster ${plan.cluster}. ${plan.sentences[0] ?? ""}`)),
    asks === REJECT &&
      h(Ask, { title: `Reject plan ${plan.plan_id.slice(0, 12)}?`, verb: "Reject", danger: true, onDo: answer(REJECT), onClose: () => setAsks(null) },
        h("p", null, "Nothing is applied, and the run ends. Your reason is kept with it.")),
  );
};
