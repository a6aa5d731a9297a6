import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { before, test } from "node:test";
import { activate, deactivate } from "../src/extension";
import { clients, type LanguageClient } from "./fakes/client";
import { fake, show } from "./fakes/vscode";

// Programs that only say whether they are there.
const programs = mkdtempSync(join(tmpdir(), "memlint-"));
const program = (name: string, status: number): string => {
  const path = join(programs, name);
  writeFileSync(path, `#!/bin/sh\nexit ${status}\n`);
  chmodSync(path, 0o755);
  return path;
};
const withServer = program("with-server", 0);
const withoutServer = program("without-server", 1);
const uvx = program("uvx", 0);

const latest = (): LanguageClient => clients[clients.length - 1] as LanguageClient;
const event = (...changed: string[]) => ({
  affectsConfiguration: (name: string) => changed.some((each) => `${each}.`.startsWith(`${name}.`)),
});

before(async () => {
  process.env.PATH = `${programs}${delimiter}/usr/bin${delimiter}/bin`;
  fake.python = withServer;
  fake.settings["memlint.gpu"] = "a100-80gb";
  const extension = { packageJSON: JSON.parse(readFileSync("package.json", "utf8")) };
  await activate({ subscriptions: [], extension } as never);
});

const unix = { skip: process.platform === "win32" };

test("the server of the chosen interpreter runs with the editor's settings", unix, () => {
  assert.equal(latest().run.command, withServer);
  assert.deepEqual(latest().options.initializationOptions, { gpu: "a100-80gb" });
  assert.equal(latest().run.options.env.PYTHONSAFEPATH, "1");
  assert.ok(latest().isRunning);
});

test("all commands of the package are there", unix, () => {
  const described = JSON.parse(readFileSync("package.json", "utf8"));
  const names = described.contributes.commands.map((each: { command: string }) => each.command);
  assert.deepEqual(Object.keys(fake.commands).sort(), names.sort());
});

test("the status bar follows the open script", unix, async () => {
  const tell = latest().handlers["memlint/footprint"];
  await show("file:///a.py");
  assert.equal(fake.bar.visible, false);
  tell?.({ uri: "file:///a.py", text: "a.py: peak 90.0 GiB in the step (does not fit a100-80gb)." });
  assert.ok(fake.bar.visible);
  assert.equal(fake.bar.text, "$(chip) 90.0 GiB");
  assert.notEqual(fake.bar.backgroundColor, undefined);
  await show("file:///b.py");
  assert.equal(fake.bar.visible, false);
});

test("another GPU is written, and a changed setting is sent without a restart", unix, async () => {
  const before = clients.length;
  for (const [picks, value] of [
    [["h100-80gb"], "h100-80gb"],
    [["Another name…", "rtx9000-99gb"], "rtx9000-99gb"],
    [[undefined], "rtx9000-99gb"],
    [["None"], undefined],
  ] as const) {
    fake.picks = [...picks];
    await fake.commands["memlint.chooseGpu"]?.();
    assert.equal(fake.settings["memlint.gpu"], value);
  }
  fake.settings["memlint.gpu"] = "h100-80gb";
  await fake.settingsChanged.fire(event("memlint.gpu"));
  assert.equal(clients.length, before);
  assert.deepEqual(latest().sent.at(-1), [
    "workspace/didChangeConfiguration",
    { settings: { memlint: { gpu: "h100-80gb" } } },
  ]);
  await fake.settingsChanged.fire(event("editor.fontSize"));
  assert.equal(latest().sent.length, 1);
});

test("fix all safe asks the editor for the server's action", unix, async () => {
  await fake.commands["memlint.fixAll"]?.();
  assert.deepEqual(fake.executed.at(-1)?.[1], { kind: "source.fixAll.memlint", apply: "first" });
});

test("another interpreter restarts the server, through uvx where it has none", unix, async () => {
  const old = latest();
  fake.python = withoutServer;
  await fake.interpreterChanged.fire();
  await fake.commands["memlint.restart"]?.();
  assert.equal(old.isRunning, false);
  assert.equal(latest().run.command, "uvx");
  assert.equal(clients.filter((each) => each.isRunning).length, 1);
});

test("a path of the settings restarts the server", unix, async () => {
  fake.settings["memlint.path"] = "/opt/memlint";
  await fake.settingsChanged.fire(event("memlint.path"));
  assert.equal(latest().run.command, "/opt/memlint");
  fake.settings["memlint.path"] = "";
});

test("without memlint and uvx there is one message", unix, async () => {
  const before = clients.length;
  chmodSync(uvx, 0o644);
  writeFileSync(uvx, "");
  await fake.commands["memlint.restart"]?.();
  assert.equal(clients.length, before);
  assert.equal(fake.errors.length, 1);
  assert.match(fake.errors[0] ?? "", /torch-memlint\[server\]/);
});

test("the server stops with the extension", unix, async () => {
  await deactivate();
  assert.equal(clients.filter((each) => each.isRunning).length, 0);
});
