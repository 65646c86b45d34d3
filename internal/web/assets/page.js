// What the page does by itself: times that grow, lines between tasks, logs that follow. Everything else comes from the server.
"use strict";

const svgName = "http://www.w3.org/2000/svg";
const allEdges = 150; // tasks up to which every dependency is drawn; of more, those of the task that is looked at
const logItems = 5000; // of a log that are kept on the page

// The key to the page stays out of the address once the browser has it.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);

function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const parts = [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60];
  if (parts[0]) return `${parts[0]}h ${parts[1]}m`;
  return parts[1] ? `${parts[1]}m ${parts[2]}s` : `${parts[2]}s`;
}

function tick() {
  for (const e of document.querySelectorAll(".since[data-since]")) e.textContent = "for " + duration(Date.now() - Number(e.dataset.since));
}
setInterval(tick, 1000);
tick();

// Lines between tasks that depend on each other.
const board = document.querySelector(".board");
const edges = document.getElementById("edges");

function line(from, to, origin, kind) {
  const a = from.getBoundingClientRect(), b = to.getBoundingClientRect();
  const x1 = a.right - origin.left, y1 = a.top + a.height / 2 - origin.top, x2 = b.left - origin.left, y2 = b.top + b.height / 2 - origin.top;
  const path = document.createElementNS(svgName, "path"), bend = Math.max(12, (x2 - x1) / 2);
  path.setAttribute("d", `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
  path.setAttribute("class", kind);
  edges.append(path);
}

function draw(card) {
  if (!edges) return;
  edges.replaceChildren();
  edges.setAttribute("width", board.scrollWidth);
  edges.setAttribute("height", board.scrollHeight);
  const origin = edges.getBoundingClientRect();
  const cards = board.querySelectorAll(".card");
  const before = c => c.dataset.deps.split(" ").filter(Boolean).map(n => document.getElementById("t" + n)).filter(Boolean);
  if (card) {
    for (const d of before(card)) line(d, card, origin, "near");
    const n = card.id.slice(1);
    for (const c of cards) if (c.dataset.deps && c.dataset.deps.split(" ").includes(n)) line(card, c, origin, "near");
  } else if (cards.length <= allEdges) {
    for (const c of cards) for (const d of before(c)) line(d, c, origin, c.classList.contains("critical") && d.classList.contains("critical") ? "near" : "");
  }
}

if (board) {
  const looked = e => draw(e.target.closest(".card"));
  board.addEventListener("mouseover", looked);
  board.addEventListener("focusin", looked);
  board.addEventListener("mouseleave", () => draw(null));
  addEventListener("resize", () => draw(null));
  draw(null);
}

document.addEventListener("htmx:sseMessage", e => {
  if (e.detail.type === "reload") location.reload();
  tick();
});
document.addEventListener("htmx:oobAfterSwap", tick);

// What the server refuses is said where its answer would stand.
document.addEventListener("htmx:responseError", e => {
  const place = document.getElementById("did") || document.getElementById("trouble");
  if (place) place.textContent = e.detail.xhr.responseText;
});
document.addEventListener("htmx:sendError", () => {
  const place = document.getElementById("did") || document.getElementById("trouble");
  if (place) place.textContent = "descartes serve does not answer: is it still running?";
});

// Logs are followed while they are open.
function follow(details) {
  const lines = details.querySelector(".lines");
  let source = null;
  const toggle = () => {
    if (!details.open) {
      if (source) source.close();
      source = null;
      return;
    }
    if (source || details.dataset.over) return;
    lines.replaceChildren();
    source = new EventSource(details.dataset.log);
    source.addEventListener("line", e => {
      const end = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 40;
      lines.insertAdjacentHTML("beforeend", e.data);
      while (lines.childElementCount > logItems) lines.firstElementChild.remove();
      if (end) lines.scrollTop = lines.scrollHeight;
    });
    source.addEventListener("over", () => {
      details.dataset.over = "yes";
      source.close();
      if (!lines.childElementCount) lines.textContent = "It is empty.";
    });
    source.addEventListener("error", () => {
      source.close();
      if (!lines.childElementCount) lines.textContent = "There is no log to show.";
    });
  };
  details.addEventListener("toggle", toggle);
  toggle();
}
for (const d of document.querySelectorAll("details[data-log]")) follow(d);
