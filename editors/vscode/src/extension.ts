import { execFile } from "node:child_process";
import * as vscode from "vscode";
import { LanguageClient, ServerOptions } from "vscode-languageclient/node";
import { chooseCommand, PACKAGE, serverSettings, shortFootprint } from "./command";

const GPUS = ["", "rtx3090-24gb", "rtx4090-24gb", "a100-40gb", "a100-80gb", "h100-80gb", "h200", "b200"];
const KINDS = [{ language: "python" }, { language: "yaml" }, { notebook: "jupyter-notebook", language: "python" }];

let client: LanguageClient | undefined;
let status: vscode.StatusBarItem;
const footprints = new Map<string, string>();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 90);
  status.command = "memlint.chooseGpu";
  context.subscriptions.push(
    status,
    vscode.commands.registerCommand("memlint.restart", restart),
    vscode.commands.registerCommand("memlint.fixAll", fixAll),
    vscode.commands.registerCommand("memlint.chooseGpu", chooseGpu),
    vscode.window.onDidChangeActiveTextEditor(showFootprint),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("memlint.path")) {
        await restart();
      } else if (event.affectsConfiguration("memlint")) {
        await client?.sendNotification("workspace/didChangeConfiguration", { settings: { memlint: settings() } });
      }
    }),
  );
  const python = await pythonApi();
  const changed = python?.environments?.onDidChangeActiveEnvironmentPath;
  if (changed) {
    context.subscriptions.push(changed(restart));
  }
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function settings(): Record<string, unknown> {
  const configuration = vscode.workspace.getConfiguration("memlint");
  return serverSettings((name) => configuration.get(name));
}

async function start(): Promise<void> {
  const configured = vscode.workspace.getConfiguration("memlint").get<string[]>("path", []);
  const command = await chooseCommand(configured, await interpreter(), runs);
  if (command === undefined) {
    void vscode.window.showErrorMessage(
      `memlint: no server found. Install it where your scripts run (pip install '${PACKAGE}'), or install uv.`,
    );
    return;
  }
  const server: ServerOptions = { run: command, debug: command };
  client = new LanguageClient("memlint", "memlint", server, {
    documentSelector: KINDS,
    initializationOptions: settings(),
  });
  client.onNotification("memlint/footprint", (params: { uri: string; text: string }) => {
    footprints.set(vscode.Uri.parse(params.uri).toString(), params.text);
    showFootprint();
  });
  await client.start();
}

async function restart(): Promise<void> {
  await client?.stop();
  client = undefined;
  footprints.clear();
  await start();
}

function showFootprint(): void {
  const document = vscode.window.activeTextEditor?.document;
  const text = document ? footprints.get(document.uri.toString()) : undefined;
  const short = text ? shortFootprint(text) : "";
  if (!short) {
    status.hide();
    return;
  }
  status.text = `$(chip) ${short}`;
  status.tooltip = text;
  status.show();
}

async function fixAll(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    return;
  }
  const all = new vscode.Range(0, 0, editor.document.lineCount, 0);
  const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
    "vscode.executeCodeActionProvider", editor.document.uri, all, "source.fixAll.memlint", 1,
  );
  for (const action of actions) {
    if (action.edit) {
      await vscode.workspace.applyEdit(action.edit);
    }
  }
}

async function chooseGpu(): Promise<void> {
  const items = GPUS.map((name) => ({ label: name || "(none)", name }));
  const chosen = await vscode.window.showQuickPick(items, { placeHolder: "The GPU that runs are to fit" });
  if (chosen) {
    await vscode.workspace.getConfiguration("memlint").update("gpu", chosen.name);
  }
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
async function pythonApi(): Promise<any> {
  const extension = vscode.extensions.getExtension("ms-python.python");
  return extension ? (extension.isActive ? extension.exports : await extension.activate()) : undefined;
}

async function interpreter(): Promise<string | undefined> {
  const python = await pythonApi();
  const path = python?.environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri);
  const environment = path && (await python.environments.resolveEnvironment(path));
  return environment?.executable?.uri?.fsPath;
}

function runs(command: string, args: string[]): Promise<boolean> {
  return new Promise((resolve) => execFile(command, args, { timeout: 20_000 }, (error) => resolve(!error)));
}
