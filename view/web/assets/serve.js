// What only the page of descartes serve does: it has the key, loads what its address names, and follows what changes there.
"use strict";

const logItems = 5000; // of a log that are kept on the page

// The printed address has the key behind a "#", which no browser sends. It stays in this tab, and goes out of the address.
const given = new URLSearchParams(location.hash.slice(1)).get("key");
if (given) {
  sessionStorage.setItem("key", given);
  history.replaceState(null, "", location.pathname);
}
addEventListener("hashchange", () => { if (location.hash.startsWith("#key=")) location.reload(); }); // typed into a tab that is here already

const keyed = { "Descartes-Key": sessionStorage.getItem("key") ?? "" };
document.addEventListener("htmx:configRequest", e => Object.assign(e.detail.headers, keyed));

// What the server refuses is said where its answer would stand.
function say(text) {
  const place = document.getElementById("did") || document.getElementById("trouble");
  if (place) place.textContent = text;
}
document.addEventListener("htmx:responseError", e => say(e.detail.xhr.responseText));
document.addEventListener("htmx:sendError", () => say("descartes serve does not answer: is it still running?"));

// stream reads server-sent events until they end. An EventSource cannot send the key.
async function stream(path, signal, take) {
  const answer = await fetch(path, { headers: keyed, signal });
  if (!answer.ok) return answer.text();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return "";
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const text of events) {
      const field = name => text.split("\n").filter(l => l.startsWith(name)).map(l => l.slice(name.length)).join("\n");
      take(field("event: "), field("data: "));
    }
  }
}

// refresh fetches the parts of a page that change. What somebody types stays.
async function refresh() {
  if (document.activeElement?.matches("textarea, input") && document.activeElement.value) return;
  const focus = document.activeElement?.id, left = document.querySelector(".board")?.scrollLeft;
  await htmx.ajax("GET", location.pathname + "/parts", { swap: "none" });
  if (left) document.querySelector(".board").scrollLeft = left;
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  showBoard();
  tick();
}

// live fetches what changes whenever the server says so, and asks again when the server was away.
async function live(path) {
  for (let refused = ""; !refused; await new Promise(later => setTimeout(later, 1000))) {
    try {
      refused = await stream(path, null, (event, data) => {
        if (event === "trouble") document.getElementById("trouble").textContent = data;
        if (event === "changed") refresh();
      });
      if (refused) document.getElementById("trouble").textContent = refused;
    } catch { } // it is away
  }
}

// follow shows a log while it is open.
function follow(details) {
  const lines = details.querySelector(".lines");
  let open = null;
  const toggle = async () => {
    if (!details.open) {
      open?.abort();
      open = null;
      return;
    }
    if (open || details.dataset.over) return;
    open = new AbortController();
    lines.replaceChildren();
    try {
      await stream(details.dataset.log, open.signal, (event, data) => {
        const end = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 40;
        if (event === "line") lines.insertAdjacentHTML("beforeend", data);
        if (event === "over") details.dataset.over = "yes";
        while (lines.childElementCount > logItems) lines.firstElementChild.remove();
        if (end) lines.scrollTop = lines.scrollHeight;
      });
    } catch { } // it was closed, or the server is away
    if (!lines.childElementCount) lines.textContent = details.dataset.over ? "It is empty." : "There is no log to show.";
  };
  details.addEventListener("toggle", toggle);
  toggle();
}

htmx.onLoad(main => {
  if (main.tagName !== "MAIN") return;
  showBoard();
  tick();
  main.querySelectorAll("details[data-log]").forEach(follow);
  if (main.dataset.live) live(main.dataset.live);
});
