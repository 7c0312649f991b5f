// The place in the console is in the address behind the #: a view, and what it
// is filtered by. #/decisions?decision=give_up can be sent to a colleague.

export function place() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [view, ...rest] = path.split("/").filter(Boolean);
  return { view: view || "fleet", name: decode(rest.join("/")), query: Object.fromEntries(new URLSearchParams(query || "")) };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

// to is the address of a view; members that say nothing are left out.
export function to(view, name, query) {
  const given = Object.entries(query || {}).filter(([, value]) => value !== "" && value !== undefined && value !== null && value !== false);
  const text = new URLSearchParams(given).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${text ? `?${text}` : ""}`;
}

// refine changes what the view is filtered by; it makes no step back. The page's
// own changes are told as "refined", so that they differ from an address that
// somebody has gone to.
export function refine(changes) {
  const { view, name, query } = place();
  history.replaceState(null, "", to(view, name, { ...query, ...changes }));
  dispatchEvent(new Event("refined"));
}
