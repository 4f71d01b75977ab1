// Colours come from the style sheet, so that light, dark and print have one source.

export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    paper: read("paper"),
    ink: read("ink"),
    ink2: read("ink-2"),
    ink3: read("ink-3"),
    rule: read("rule"),
    strong: read("rule-strong"),
    shade: read("shade"),
    server: read("server"),
    client: read("client"),
    link: read("link"),
    neutral: read("neutral"),
    serverSoft: read("server-soft"),
    clientSoft: read("client-soft"),
    linkSoft: read("link-soft"),
    neutralSoft: read("neutral-soft"),
    more: read("more"),
    less: read("less"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

/** Between two colours of the theme, given as #rrggbb. */
export function mix(from, to, part) {
  const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [a, b] = [parse(from), parse(to)];
  return `rgb(${a.map((channel, i) => Math.round(channel + (b[i] - channel) * part)).join(" ")})`;
}
