// The page: what is typed goes to the worker, what it answers is shown.
const at = (id) => document.getElementById(id);
const GIB = 2 ** 30;
const MOST_CELLS = 2 ** 24; // of the table that compares two texts
const COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"];
const examples = await (await fetch(new URL("./examples/names.json", import.meta.url))).json();
const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module" });
let number = 0;
let ready = false;
let timer = 0;
let last = null;

// -- the script in the link: deflated, in base64 for addresses -----------------------------------

async function through(stream, bytes) {
  const response = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await response.arrayBuffer());
}

async function toFragment(state) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(state)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function fromFragment(fragment) {
  const text = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const state = JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
  return typeof state.script === "string" ? state : null;
}

function state() {
  return { script: at("script").value, trl: at("trl").value, transformers: at("transformers").value, gpu: at("gpu").value };
}

// -- parts of the page ---------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const gib = (bytes) => (bytes < 0.1 * GIB ? `${Math.round(bytes / 2 ** 20)} MiB` : `${(bytes / GIB).toFixed(1)} GiB`);

function numberLines(findings) {
  const levels = new Map();
  for (const finding of findings) if (!levels.has(finding.location.row)) levels.set(finding.location.row, finding.level);
  const count = at("script").value.split("\n").length;
  at("numbers").replaceChildren(
    ...Array.from({ length: count }, (_, index) => element("span", { class: levels.get(index + 1) ?? "" }, `${index + 1}\n`)),
  );
  at("numbers").scrollTop = at("script").scrollTop;
}

function goTo(row) {
  const lines = at("script").value.split("\n");
  const start = lines.slice(0, row - 1).reduce((sum, line) => sum + line.length + 1, 0);
  at("script").focus();
  at("script").setSelectionRange(start, start + lines[row - 1].length);
  at("script").scrollTop = Math.max(0, (row - 6) * 21);
}

function price(saving) {
  if (!saving) return "";
  const [low, high] = [gib(saving.low), gib(saving.high)];
  return ` saves ${low === high ? low : `${low} to ${high}`} (${saving.phase})`;
}

function showFindings({ findings, said }) {
  const items = findings.map((finding) => {
    const { row } = finding.location;
    const code = finding.url && finding.code
      ? element("a", { href: `../rules/${finding.code}.html`, target: "_blank" }, finding.code)
      : finding.code ?? "";
    const place = element("button", { type: "button", class: "go", onclick: () => goTo(row) }, `Line ${row}`);
    const parts = [element("p", {}, place, " ", code, ` ${finding.name} (${finding.level})`), element("p", {}, finding.message)];
    if (finding.fix) {
      const kind = { safe: "Safe fix", unsafe: "Unsafe fix", display: "By hand" }[finding.fix.applicability];
      parts.push(element("p", { class: "fix" }, `${kind}: ${finding.fix.message}.${price(finding.saving)}`));
    } else if (finding.saving) parts.push(element("p", { class: "fix" }, price(finding.saving).trim()));
    return element("li", { class: finding.level }, ...parts);
  });
  const none = element("p", {}, "Nothing wastes GPU memory here, and every option is one of these versions.");
  at("findings").replaceChildren(items.length ? element("ol", { class: "findings" }, ...items) : none);
  if (said) at("findings").append(element("p", { class: "fix" }, said));
}

// The lines of two texts, with the longest part that both have in the same order.
function difference(before, after) {
  if (before.length * after.length > MOST_CELLS) return after.map((line) => [" ", line]);
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      lengths[i][j] = before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      lines.push([" ", before[i]]);
      i += 1;
      j += 1;
    } else if (j >= after.length || (i < before.length && lengths[i + 1][j] >= lengths[i][j + 1])) lines.push(["-", before[i++]]);
    else lines.push(["+", after[j++]]);
  }
  return lines;
}

function showFixed() {
  if (!last) return;
  const text = at("unsafe").checked ? last.all : last.safe;
  const lines = difference(last.script.split("\n"), text.split("\n"));
  at("text").replaceChildren(
    ...lines.map(([sign, line]) =>
      sign === " " ? `  ${line}\n` : element(sign === "+" ? "ins" : "del", {}, `${sign} ${line}`),
    ),
  );
}

function bars(memory, most) {
  const kinds = [...new Set(memory.phases.flatMap((phase) => Object.keys(phase.bytes_by_kind)))];
  const rows = memory.phases.map((phase) => {
    const parts = kinds
      .filter((kind) => phase.bytes_by_kind[kind])
      .map((kind) => {
        const colour = COLOURS[kinds.indexOf(kind) % COLOURS.length];
        const title = `${kind}: ${gib(phase.bytes_by_kind[kind])}`;
        return element("span", { style: `width:${(100 * phase.bytes_by_kind[kind]) / most}%;background:${colour}`, title });
      });
    const peak = phase.name === memory.peak_phase ? " (peak)" : "";
    return element("tr", {}, element("td", {}, phase.name + peak), element("td", {}, gib(phase.total)), element("td", { style: "width:60%" }, element("div", { class: "bar" }, ...parts)));
  });
  const key = kinds.map((kind, index) => element("span", {}, element("span", { style: `color:${COLOURS[index % COLOURS.length]}`, "aria-hidden": "true" }, "■ "), `${kind} `));
  const head = element("tr", {}, element("th", {}, "phase"), element("th", {}, "allocated"), element("th", {}, "by kind"));
  return [element("table", {}, head, ...rows), element("p", {}, ...key)];
}

function showMemory({ memory, unpriced, safe_memory, all_memory }) {
  if (!memory) {
    at("memory").replaceChildren(element("p", {}, unpriced || "No run is seen in this script."));
    return;
  }
  const states = [["As it is", memory], ["After the safe fixes", safe_memory], ["After all fixes", all_memory]].filter(([, run]) => run);
  const most = Math.max(...states.flatMap(([, run]) => run.phases.map((phase) => phase.total)));
  const parts = states.flatMap(([title, run]) => {
    const { low, estimate, high } = run.allocated;
    const verdict = run.gpu ? `${run.verdict} ${run.gpu.name}` : "";
    return [element("h2", {}, title), element("p", {}, `Peak ${gib(estimate)} (${gib(low)} to ${gib(high)}): ${verdict}`), ...bars(run, most)];
  });
  if (memory.assumptions.length) {
    parts.push(element("h2", {}, "Assumed"));
    parts.push(element("ul", {}, ...memory.assumptions.map((each) => element("li", {}, `${each.name} = ${each.value}: ${each.reason}`))));
  }
  at("memory").replaceChildren(...parts);
}

function show(data) {
  last = { ...data, script: data.script };
  const { findings, memory } = data;
  const peak = memory ? `; peak ${gib(memory.allocated.estimate)}${memory.gpu ? `, ${memory.verdict} ${memory.gpu.name}` : ""}` : "";
  at("status").textContent = `${findings.length} finding${findings.length === 1 ? "" : "s"}${peak}`;
  numberLines(findings);
  showFindings(data);
  showFixed();
  showMemory(data);
}

// -- questions and answers -----------------------------------------------------------------------

function ask(kind) {
  const { script, trl, transformers, gpu } = state();
  number += 1;
  worker.postMessage({ kind, number, script, gpu, target: `trl=${trl},transformers=${transformers}` });
  return script;
}

let asked = "";
function check() {
  if (!ready) return;
  at("status").textContent = "Checking ...";
  asked = ask("answer");
}

function changed() {
  numberLines([]);
  clearTimeout(timer);
  timer = setTimeout(() => (selected() === "report" ? ask("report") : check()), 300);
}

worker.onmessage = async ({ data }) => {
  if (data.kind === "choices") await fill(JSON.parse(data.text));
  else if (data.kind === "ready") {
    ready = true;
    check();
  } else if (data.number !== undefined && data.number !== number) return; // a newer question waits
  else if (data.kind === "answer") show({ ...JSON.parse(data.text), script: asked });
  else if (data.kind === "report") at("report").replaceChildren(element("iframe", { title: "The report of memlint", sandbox: "allow-scripts", srcdoc: data.text }));
  else at("status").textContent = `This did not work: ${data.text.slice(-400)}`;
};

async function fill(choices) {
  at("example").replaceChildren(...Object.entries(examples).map(([value, title]) => element("option", { value }, title)));
  for (const name of ["trl", "transformers"]) at(name).replaceChildren(...choices[name].map((each) => element("option", {}, each)));
  at("gpu").replaceChildren(...choices.gpus.map((each) => element("option", {}, each)));
  at("gpu").value = "rtx4090-24gb";
  let shared = null;
  if (location.hash.length > 1) {
    try {
      shared = await fromFragment(location.hash.slice(1));
    } catch {
      at("status").textContent = "The link holds no script that can be read.";
    }
  }
  if (shared) for (const name of ["trl", "transformers", "gpu"]) if (shared[name]) at(name).value = shared[name];
  if (shared) at("script").value = shared.script;
  else await example();
  numberLines([]);
}

async function example() {
  const answer = await fetch(new URL(`./examples/${at("example").value}`, import.meta.url));
  at("script").value = await answer.text();
}

// -- tabs, by the pattern of WAI-ARIA ------------------------------------------------------------

const tabs = [...document.querySelectorAll("[role=tab]")];
const selected = () => tabs.find((tab) => tab.getAttribute("aria-selected") === "true").getAttribute("aria-controls");

function select(tab) {
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    at(other.getAttribute("aria-controls")).hidden = other !== tab;
  }
  tab.focus();
  if (ready && tab.id === "tab-report") ask("report");
  else if (ready && last?.script !== at("script").value) check();
}

for (const tab of tabs) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) select(tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]);
  });
}

for (const name of ["trl", "transformers", "gpu"]) at(name).addEventListener("change", changed);
at("script").addEventListener("input", changed);
at("script").addEventListener("scroll", () => (at("numbers").scrollTop = at("script").scrollTop));
at("example").addEventListener("change", async () => {
  await example();
  changed();
});
at("unsafe").addEventListener("change", showFixed);
at("take").addEventListener("click", () => {
  if (!last) return;
  at("script").value = at("unsafe").checked ? last.all : last.safe;
  changed();
});
at("link").addEventListener("click", async () => {
  location.hash = await toFragment(state());
  try {
    await navigator.clipboard.writeText(location.href);
    at("status").textContent = "The link is copied; the script is in it.";
  } catch {
    at("status").textContent = "The link stands in the address bar; the script is in it.";
  }
});
