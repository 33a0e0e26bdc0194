// One run: progress by wave while it goes on, what became of each step, stop, and what a rollback would do.

import { LIVE_MS, Link, ago, call, count, h, int, ownApi, seconds, seg, shortId, span, time, useData, useState } from "./lib.js";
import { Badge, Facts, Failure, Loading, Notice, Num, Section, Table } from "./parts.js";
import { StopDialog } from "./clusters.js";

const STATES = ["settled", "proved", "in_flight", "skipped", "failed"];
const WORDS = { settled: "settled", proved: "proved", in_flight: "in flight", skipped: "skipped", failed: "failed", left: "left" };

export const Run = ({ cluster, runId }) => {
  const { data: place } = useData(ownApi(`clusters/${seg(cluster)}`));
  return h(RunProgress, { cluster, runId, canEdit: place?.can_edit });
};

export const RunProgress = ({ cluster, runId, canEdit, isShort, onChange }) => {
  const base = `clusters/${seg(cluster)}`;
  // A run that has ended is recorded a moment after its writer has let go.
  const [isLive, setLive] = useState(true);
  const { data: run, error, reload } = useData(ownApi(`${base}/runs/${seg(runId)}`), isLive ? LIVE_MS : 0);
  const [asks, setAsks] = useState(false);
  if (!run) return error ? h(Failure, { error }) : h(Loading, { what: "the run" });
  const isRunning = run.state === "running";
  const hasEnded = run.ended_at !== null;
  if (isLive === hasEnded) {
    setLive(!hasEnded);
    if (hasEnded && onChange) setTimeout(onChange, 0);
  }
  const stop = async (reason) => {
    await call(ownApi(`${base}/stop`), { method: "POST", body: { reason } });
    reload();
  };
  const title = h("span", null, `Run ${run.run_id} `);
  const left = run.seconds_left === null ? "" : `, about ${span(run.seconds_left)} left`;
  const said = `${int(run.done)} of ${count(run.steps, "step")} done${isRunning ? left : ""}`;
  const actions = isRunning && canEdit ? h("button", { type: "button", className: "danger", onClick: () => setAsks(true) }, "Stop…") : null;
  return h(
    Section,
    { title, level: isShort ? 3 : 2, note: h(Badge, null, run.state), actions },
    h(Failure, { error }),
    run.live.stop && run.state !== "done" && h(Notice, { tone: "bad", role: "status" }, `All writing is stopped: ${run.live.stop.who}${run.live.stop.reason ? `: ${run.live.stop.reason}` : ""}.`),
    run.journal_error && h(Notice, { tone: "warn" }, `The journal cannot be read now: ${run.journal_error}.`),
    run.detail && h(Notice, { tone: run.state === "done" ? "info" : "warn" }, run.detail),
    h("p", { role: "status", "aria-live": "polite" }, h("strong", null, said)),
    h(Waves, { waves: run.waves, isShort }),
    isShort
      ? h("p", null, h(Link, { to: { cluster, view: "run", run: runId } }, "Everything about this run"))
      : h(
          "div",
          null,
          h(Facts, {
            pairs: [
              ["Plan", h(Link, { to: { cluster, view: "plan", plan: run.plan_id } }, shortId(run.plan_id))],
              ["Started", run.started_at ? `${time(run.started_at)}, ${ago(run.started_at)}` : "–"],
              ["Ended", run.ended_at ? `${time(run.ended_at)}, after ${span((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000)}` : "–"],
              ["Epoch", int(run.epoch)],
              ["Settled", int(run.counts.settled)],
              ["Skipped", int(run.counts.skipped)],
              ["Failed", int(run.counts.failed)],
            ],
          }),
          h(Problems, { run }),
          !isRunning && !run.dry_run && h(Rollback, { cluster, runId: run.run_id }),
          h(Events, { events: run.events }),
        ),
    asks && h(StopDialog, { name: cluster, onDo: stop, onClose: () => setAsks(false) }),
  );
};

const Waves = ({ waves, isShort }) => {
  const open = waves.filter((wave) => wave.left || wave.in_flight);
  const shown = isShort && waves.length > 8 ? (open.length ? open : waves).slice(0, 8) : waves;
  return h(
    "div",
    { className: "waves", role: "list", "aria-label": "Progress by wave", tabIndex: 0 },
    shown.map((wave) => {
      const parts = [...STATES, "left"].filter((state) => wave[state]).map((state) => `${int(wave[state])} ${WORDS[state]}`);
      return h(
        "div",
        { className: "wave", role: "listitem", key: wave.wave },
        h("span", null, wave.wave === 0 ? "Canary" : `Wave ${wave.wave}`),
        h("span", { className: "stack", "aria-hidden": true }, STATES.map((state) => h("span", { key: state, className: state, style: { width: `${(100 * wave[state]) / wave.steps}%` } }))),
        h("span", { className: "soft" }, parts.join(", ")),
      );
    }),
    shown.length < waves.length && h("div", { role: "listitem", className: "soft" }, `${count(waves.length - shown.length, "more wave")}`),
  );
};

const Problems = ({ run }) =>
  run.problems.length === 0
    ? null
    : h(
        Section,
        { title: "Skipped and failed steps", level: 3, note: count(run.problems_in_all, "step") },
        h(
          Table,
          { caption: "Skipped and failed steps", heads: [["Step", "num"], ["Bundle"], ["State"], ["Why"]] },
          run.problems.map((each) => h("tr", { key: each.order }, h(Num, null, int(each.order)), h("td", { className: "mono" }, each.bundle), h("td", null, h(Badge, null, each.state)), h("td", null, each.detail))),
        ),
      );

const Rollback = ({ cluster, runId }) => {
  const [wanted, setWanted] = useState(false);
  const { data, error } = useData(wanted ? ownApi(`clusters/${seg(cluster)}/runs/${seg(runId)}/rollback`) : null);
  return h(
    Section,
    { title: "Rollback preview", level: 3, note: "Made from the journal and a fresh look at the cluster. Nothing is written.", actions: !wanted && h("button", { type: "button", onClick: () => setWanted(true) }, "What would a rollback do?") },
    wanted && !data && !error && h(Loading, { what: "the preview" }),
    h(Failure, { error }),
    data?.refused && h(Notice, { tone: "warn" }, `${data.refused}. What to do: ${data.remedy}.`),
    data && !data.refused &&
      h(
        "div",
        { role: "status" },
        h("p", null, `${count(data.steps_in_all, "bundle")} would move back: ${int(data.sessions)} sessions reconnect, ${seconds(data.client_seconds)} client-seconds. ${data.left.length ? `${count(data.left.length, "bundle")} would stay. ` : ""}To do it, trigger the Dag rollback_plan with run ${runId}.`),
        data.steps.length > 0 &&
          h(
            Table,
            { caption: "Moves of the rollback", heads: [["Bundle"], ["From"], ["Back to"]] },
            data.steps.slice(0, 500).map((step) => h("tr", { key: step.bundle }, h("td", { className: "mono" }, step.bundle), h("td", { className: "mono" }, step.source), h("td", { className: "mono" }, step.destination))),
          ),
        data.left.length > 0 && h("ul", { className: "plain" }, data.left.slice(0, 200).map((row) => h("li", { key: row.bundle }, h("code", null, row.bundle), ` stays: ${row.detail}`))),
      ),
  );
};

const Events = ({ events }) =>
  events.length === 0
    ? null
    : h(
        Section,
        { title: "What the run did", level: 3 },
        h(
          Table,
          { caption: "Events of the run", heads: [["Time"], ["What"], ["Detail"]] },
          events.map((event, i) => h("tr", { key: i }, h("td", { className: "mono" }, event.at.slice(11, 23)), h("td", null, event.what), h("td", { className: "soft" }, event.detail))),
        ),
      );
