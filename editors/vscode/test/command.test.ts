import assert from "node:assert/strict";
import test from "node:test";
import { chooseCommand, serverSettings, shortFootprint } from "../src/command";

const answers = (...known: string[]) => async (command: string) => known.includes(command);

test("the settings' command goes first", async () => {
  const chosen = await chooseCommand(["memlint", "server"], "/env/python", answers("/env/python", "uvx"));
  assert.deepEqual(chosen, { command: "memlint", args: ["server"] });
});

test("then the interpreter, where memlint can be imported", async () => {
  const chosen = await chooseCommand([], "/env/python", answers("/env/python", "uvx"));
  assert.deepEqual(chosen, { command: "/env/python", args: ["-m", "memlint", "server"] });
});

test("then uvx, then nothing", async () => {
  const chosen = await chooseCommand([], "/env/python", answers("uvx"));
  assert.deepEqual(chosen, { command: "uvx", args: ["--from", "torch-memlint[server]", "memlint", "server"] });
  assert.equal(await chooseCommand([], undefined, answers()), undefined);
});

test("what is empty is left to the project", () => {
  const values: Record<string, unknown> = { target: "", gpu: "h200", ignore: [], runtime: true, prices: false };
  assert.deepEqual(serverSettings((name) => values[name]), { gpu: "h200", prices: false });
});

test("the status bar has the peak and whether it fits", () => {
  const text = "train.py: peak 23.5 GiB in the forward pass (is tight on rtx4090-24gb); 6.0 GiB with safe fixes.";
  assert.equal(shortFootprint(text), "peak 23.5 GiB in the forward pass (is tight on rtx4090-24gb)");
  assert.equal(shortFootprint("train.py: peak 7.3-14.8 GiB at the loss; 3.8 GiB with safe fixes."), "peak 7.3-14.8 GiB");
  assert.equal(shortFootprint("nothing"), "");
});
