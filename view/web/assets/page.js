// What the page and the report draw by themselves: times that grow, and lines between tasks.
"use strict";

const svgName = "http://www.w3.org/2000/svg";
const allEdges = 150; // tasks up to which every dependency is drawn; of more, those of the task that is looked at

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
let board, edges;

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
    for (const c of cards) for (const d of before(c)) line(d, c, origin, "");
  }
}

addEventListener("resize", () => draw(null));

// showBoard draws the board, once it is there.
function showBoard() {
  board = document.querySelector(".board");
  edges = document.getElementById("edges");
  if (!board) return;
  const looked = e => draw(e.target.closest(".card"));
  board.addEventListener("mouseover", looked);
  board.addEventListener("focusin", looked);
  board.addEventListener("mouseleave", () => draw(null));
  draw(null);
}
showBoard();
