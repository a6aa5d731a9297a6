import assert from "node:assert/strict";
import { test } from "node:test";
import { findLaunch, safeEnvironment, whatToInstall } from "../src/launch";

const having = (...there: string[]) => async (command: string) => there.includes(command);

test("a path of the settings is taken as it is", async () => {
  const launch = await findLaunch("/opt/memlint", ["/env/python"], having("/env/python", "uvx"));
  assert.deepEqual(launch, { command: "/opt/memlint", args: ["server"] });
});

test("the interpreter that has the server goes before uvx", async () => {
  const launch = await findLaunch("", ["/env/python"], having("/env/python", "uvx"));
  assert.deepEqual(launch, { command: "/env/python", args: ["-m", "memlint", "server"] });
});

test("the first of several interpreters that has it is taken", async () => {
  const launch = await findLaunch("", ["python3", "python"], having("python"));
  assert.equal(launch?.command, "python");
});

test("uvx is taken where no interpreter has the server", async () => {
  const launch = await findLaunch("", ["/env/python"], having("uvx"));
  assert.deepEqual(launch, {
    command: "uvx",
    args: ["--from", "torch-memlint[server]", "memlint", "server"],
  });
});

test("without both there is nothing to run, and the message says what to install", async () => {
  assert.equal(await findLaunch("", ["/env/python"], having()), undefined);
  const message = whatToInstall("/env/python");
  assert.match(message, /\/env\/python \(pip install 'torch-memlint\[server\]'\)/);
  assert.match(message, /install uv/);
  assert.match(whatToInstall(undefined), /a Python environment/);
});

test("modules in the workspace do not hide memlint", () => {
  assert.deepEqual(safeEnvironment({ HOME: "/h" }), { HOME: "/h", PYTHONSAFEPATH: "1" });
});
