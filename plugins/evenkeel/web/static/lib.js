// What every part of the app uses: the host's React, calls to the server, and numbers as people read them.

export const { createElement: h, Fragment, useState, useEffect, useMemo, useRef, useCallback, useDeferredValue, useId } =
  globalThis.React;
export const Router = globalThis.ReactRouterDOM;

const SHORT_ID = 12;
export const LIVE_MS = 2000;
export const CALM_MS = 15000;

// Relative to the page's base, so that a deployment below a path of its own works.
export const urlOf = (path) => new URL(path, document.baseURI).href;
export const ownApi = (path) => urlOf(`evenkeel/api/${path}`);
export const coreApi = (path) => urlOf(`api/v2/${path}`);
export const seg = encodeURIComponent;

export class CallError extends Error {
  constructor(status, message, remedy) {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }
}

export async function call(url, options = {}) {
  const { body, ...rest } = options;
  const headers = { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(url, {
      credentials: "same-origin",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      ...rest,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError(0, "The server did not respond", "check the connection, then reload");
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (answer.ok) return value;
  throw new CallError(answer.status, sentence(answer.status, value), value?.remedy ?? remedyFor(answer.status));
}

function sentence(status, value) {
  const detail = value?.detail;
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail) && detail[0]?.msg) return String(detail[0].msg);
  return status === 401 ? "You are not logged in" : status === 403 ? "You may not do this" : `The server said ${status}`;
}

function remedyFor(status) {
  if (status === 401) return "log in again";
  if (status === 403) return "ask for the right to the Dag rebalance_window";
  return "";
}

// Data of a route: loaded when the address changes, again every `everyMs`, and on demand. What was loaded stays visible
// while newer data is on its way.
export function useData(url, everyMs = 0) {
  const [state, setState] = useState({ url: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!url) return undefined;
    const control = new AbortController();
    call(url, { signal: control.signal }).then(
      (data) => setState({ url, data, error: null }),
      (error) => error.name === "AbortError" || setState((old) => ({ url, data: old.url === url ? old.data : null, error })),
    );
    return () => control.abort();
  }, [url, turn]);
  useEffect(() => {
    if (!everyMs || !url) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((n) => n + 1), everyMs);
    return () => clearInterval(timer);
  }, [url, everyMs]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const isCurrent = state.url === url;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, reload };
}

export const shortId = (id) => (id ? id.slice(0, SHORT_ID) : "");
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const int = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const percent = (share) => (share === null || share === undefined ? "–" : tenths.format(100 * share));
export const ratio = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
export const megabytes = (bytes) => tenths.format(bytes / 1e6);
export const seconds = (value) => (value === null || value === undefined ? "–" : value >= 10 || value === 0 ? int(value) : tenths.format(value));
export const count = (many, noun) => `${int(many)} ${noun}${many === 1 ? "" : "s"}`;

export function time(text) {
  if (!text) return "–";
  return `${text.slice(0, 10)} ${text.slice(11, 16)} UTC`;
}

export function span(totalSeconds) {
  const s = Math.max(0, Math.round(totalSeconds));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

export const secondsSince = (text, now = Date.now()) => (now - Date.parse(text)) / 1000;
export function ago(text, now) {
  if (!text) return "–";
  const past = secondsSince(text, now ? Date.parse(now) : undefined);
  return past >= 0 ? `${span(past)} ago` : `in ${span(-past)}`;
}

export const RESOURCES = [
  ["cpu", "CPU"],
  ["bandwidth_in", "Bandwidth in"],
  ["bandwidth_out", "Bandwidth out"],
];

// Where the page is: everything is in the query, so that a link can be sent and the back button works.
export function usePlace() {
  const [params, setParams] = Router.useSearchParams();
  const place = Object.fromEntries(params.entries());
  return [place, (next) => setParams(clean(next))];
}

const clean = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
export const hrefOf = (fields) => `/plugin/evenkeel?${new URLSearchParams(clean(fields))}`;
export const Link = ({ to, children, ...rest }) => h(Router.Link, { to: hrefOf(to), ...rest }, children);
