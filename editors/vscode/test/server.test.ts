// The real server, as the extension starts it, if an interpreter here has it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { test } from "node:test";
import {
  createProtocolConnection,
  type CodeAction,
  type PublishDiagnosticsParams,
  type TextEdit,
} from "vscode-languageserver-protocol/node";
import { shown } from "../src/footprint";
import { findLaunch, safeEnvironment } from "../src/launch";
import { serverOptions } from "../src/settings";

const python = process.env.MEMLINT_PYTHON ?? "python3";
const options = serverOptions((name) => ({ gpu: "rtx3050-laptop-4gb", target: "trl=1.16,transformers=5.23", ignore: [] })[name]);
const address = "file:///nowhere/train.py";
const script = `from transformers import AutoModelForCausalLM, TrainingArguments, Trainer

model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype="auto")
args = TrainingArguments("out", evaluation_strategy="no")
Trainer(model=model, args=args, train_dataset=rows).train()
`;

async function succeeds(command: string, args: string[]): Promise<boolean> {
  try {
    execFileSync(command, args, { stdio: "ignore", timeout: 30_000, env: safeEnvironment(process.env) });
    return true;
  } catch {
    return false;
  }
}

test("a script is diagnosed, fixed and measured", { timeout: 60_000 }, async (context) => {
  const launch = await findLaunch("", [python], succeeds);
  if (launch === undefined || launch.command === "uvx") {
    context.skip(`${python} has no memlint server`);
    return;
  }
  const server = spawn(launch.command, launch.args, { env: safeEnvironment(process.env) });
  const ended = new Promise((resolve) => server.on("exit", resolve));
  context.after(() => server.kill());
  const connection = createProtocolConnection(server.stdout, server.stdin);
  const diagnosed = new Promise<PublishDiagnosticsParams>((resolve) =>
    connection.onNotification("textDocument/publishDiagnostics", resolve),
  );
  const measured = new Promise<{ uri: string; text: string }>((resolve) =>
    connection.onNotification("memlint/footprint", resolve),
  );
  connection.listen();
  const capabilities = {};
  const started = { processId: process.pid, rootUri: null, capabilities };
  await connection.sendRequest("initialize", { ...started, initializationOptions: options });
  await connection.sendNotification("initialized", {});
  const textDocument = { uri: address, languageId: "python", version: 1, text: script };
  await connection.sendNotification("textDocument/didOpen", { textDocument });

  const { diagnostics } = await diagnosed;
  assert.ok(diagnostics.some((each) => each.source === "memlint"));
  const footprint = await measured;
  assert.equal(footprint.uri, address);
  assert.equal(shown(footprint.text)?.isOver, true);

  const whole = { start: { line: 0, character: 0 }, end: { line: 5, character: 0 } };
  const actions: CodeAction[] = await connection.sendRequest("textDocument/codeAction", {
    textDocument: { uri: address },
    range: whole,
    context: { diagnostics: [], only: ["source.fixAll.memlint"] },
  });
  const edits: TextEdit[] = actions[0]?.edit?.changes?.[address] ?? [];
  assert.match(edits.map((each) => each.newText).join(""), /\beval_strategy="no"/);

  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  assert.equal(await ended, 0);
  connection.dispose();
});
