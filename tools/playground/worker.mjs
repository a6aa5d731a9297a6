// Runs the linter: Python in WebAssembly, with memlint's own packages.
import { loadPyodide } from "./pyodide/pyodide.mjs";

async function load() {
  const python = await loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href });
  const packed = await fetch(new URL("./packages.zip", import.meta.url));
  if (!packed.ok) throw new Error(`packages.zip: ${packed.status} ${packed.statusText}`);
  python.unpackArchive(await packed.arrayBuffer(), "zip", { extractDir: "/packages" });
  python.runPython("import sys; sys.path.insert(0, '/packages')");
  const answers = python.pyimport("answer");
  answers.prepare("/packages");
  postMessage({ kind: "choices", text: answers.choices() });
  answers.warm_up();
  return answers;
}

const loaded = load();
loaded.then(
  () => postMessage({ kind: "ready" }),
  (error) => postMessage({ kind: "failed", text: String(error) }),
);

onmessage = async ({ data }) => {
  const answers = await loaded;
  try {
    const text = answers[data.kind](data.script, data.target, data.gpu);
    postMessage({ kind: data.kind, number: data.number, text });
  } catch (error) {
    postMessage({ kind: "failed", number: data.number, text: String(error) });
  }
};
