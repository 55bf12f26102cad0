"use strict";

const pause = document.getElementById("pause");
const connection = document.getElementById("connection");
const RETRY_MILLISECONDS = 5000;
let source = null;

function places(kind, key) {
  return document.querySelectorAll(`[data-${kind}="${CSS.escape(key)}"]`);
}

// A place that is the same is left alone, so that screen readers stay quiet.
function showText(key, text) {
  for (const place of places("text", key)) {
    if (place.textContent !== text) place.textContent = text;
  }
}

function showGauge(key, [value, most]) {
  for (const gauge of places("gauge", key)) {
    gauge.max = Math.max(most, 1);
    gauge.value = value;
  }
}

function cell(text, column) {
  const made = document.createElement(column === 0 ? "th" : "td");
  if (column === 0) made.scope = "row";
  made.textContent = text;
  return made;
}

function row(cells) {
  const made = document.createElement("tr");
  made.append(...cells.map(cell));
  return made;
}

function showTable(key, rows) {
  for (const table of places("table", key)) {
    table.tBodies[0].replaceChildren(...rows.map(row));
    table.hidden = rows.length === 0;
  }
  for (const empty of places("empty", key)) empty.hidden = rows.length > 0;
}

function showTrend(key, points) {
  for (const line of places("trend", key)) line.setAttribute("points", points);
}

const show = { texts: showText, gauges: showGauge, tables: showTable, trends: showTrend };

// A plan that ends leaves places without anything to show: the page has other ones then.
function fits(told) {
  const nowhere = (kind) => [...document.querySelectorAll(`[data-${kind}]`)]
    .some((place) => !(place.dataset[kind] in told[`${kind}s`]));
  return !["text", "gauge", "table", "trend"].some(nowhere);
}

function showAll(event) {
  const told = JSON.parse(event.data);
  if (!fits(told)) {
    location.reload();
    return;
  }
  for (const [kind, shown] of Object.entries(told)) {
    for (const [key, value] of Object.entries(shown)) show[kind](key, value);
  }
}

// The browser comes back by itself after a lost connection, but not after a refusal.
function lost() {
  connection.textContent = "Connection lost, trying again";
  if (source.readyState === EventSource.CLOSED) setTimeout(reconnect, RETRY_MILLISECONDS);
}

function reconnect() {
  if (source !== null) listen();
}

function listen() {
  if (source !== null) source.close();
  connection.textContent = "Connecting";
  source = new EventSource("events");
  source.onopen = () => { connection.textContent = "Live"; };
  source.onmessage = showAll;
  source.onerror = lost;
}

function stop() {
  source.close();
  source = null;
  connection.textContent = "Paused";
}

pause.addEventListener("click", () => {
  const pausing = source !== null;
  if (pausing) stop();
  else listen();
  pause.setAttribute("aria-pressed", String(pausing));
});

pause.hidden = false;
listen();
