// Keeps an open page current: the server says that something changed, the page is fetched again, and the sections that
// differ are replaced. Focus, open details and the place on the page stay. Without this script the page reloads itself.
"use strict";

const RETRY_MILLISECONDS = 1000;
const ANSWER_MILLISECONDS = 15000;
const live = document.getElementById("live");
let source = null;
// What is being fetched, and whether something changed since it was asked for.
let fetching = null;
let again = false;

function say(text, isLive) {
  live.textContent = text;
  live.className = isLive ? "on" : "off";
  live.hidden = false;
}

function keepOpen(next) {
  for (const details of document.querySelectorAll("details[id]")) {
    const twin = next.getElementById(details.id);
    if (twin) twin.open = details.open;
  }
}

function replace(next) {
  const focused = document.activeElement ? document.activeElement.id : "";
  const chosen = [...document.querySelectorAll("select[id]")].map((each) => [each.id, each.selectedIndex]);
  const now = document.getElementById("main");
  const then = next.getElementById("main");
  for (const old of [...now.children]) {
    if (old.id && !next.getElementById(old.id)) old.remove();
  }
  let before = null;
  for (const fresh of [...then.children]) {
    const old = fresh.id ? document.getElementById(fresh.id) : null;
    if (!old) {
      now.insertBefore(fresh, before ? before.nextSibling : now.firstChild);
      before = fresh;
      continue;
    }
    if (old.className !== fresh.className) old.className = fresh.className;
    if (old.innerHTML !== fresh.innerHTML) old.replaceChildren(...fresh.childNodes);
    before = old;
  }
  for (const [id, index] of chosen) {
    const select = document.getElementById(id);
    if (select) select.selectedIndex = index;
  }
  const target = focused ? document.getElementById(focused) : null;
  if (target && target !== document.activeElement) target.focus({ preventScroll: true });
  document.title = next.title;
  document.getElementById("asof").textContent = next.getElementById("asof").textContent;
  document.body.dataset.version = next.body.dataset.version;
}

async function refresh() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = new AbortController();
  again = false;
  const limit = setTimeout(() => fetching.abort(), ANSWER_MILLISECONDS);
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: fetching.signal });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (next.body.dataset.version) {
      keepOpen(next);
      replace(next);
    } else {
      // The node is gone, and its page with it.
      location.reload();
    }
  } catch {
    lost();
  }
  clearTimeout(limit);
  fetching = null;
  if (again) refresh();
}

// Begins anew with the version that is shown: whatever was missed, or was asked and never answered, is told again.
function lost() {
  if (!source) return;
  say("Not live: the local cloud does not answer.", false);
  source.close();
  source = null;
  again = false;
  if (fetching) fetching.abort();
  setTimeout(follow, RETRY_MILLISECONDS);
}

function follow() {
  source = new EventSource(`${document.body.dataset.changes}?seen=${document.body.dataset.version}`);
  source.addEventListener("open", () => say("Live", true));
  source.addEventListener("changed", refresh);
  source.addEventListener("time", (event) => {
    document.getElementById("asof").textContent = event.data;
  });
  // Browsers differ in when they try again by themselves.
  source.addEventListener("error", lost);
}

follow();
