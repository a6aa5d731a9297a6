// Starts memlint's language server, and shows what an editor shows beside diagnostics.

import { execFile } from "node:child_process";
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions } from "vscode-languageclient/node";
import { Footprints } from "./footprint";
import { chosenInterpreter, onInterpreterChange } from "./interpreter";
import { findLaunch, safeEnvironment, whatToInstall } from "./launch";
import { serverOptions } from "./settings";

const SECONDS = 30; // for a command that only says whether it is there

const DOCUMENTS = ["file", "untitled", "vscode-notebook-cell"].flatMap((scheme) => [
  { scheme, language: "python" },
  ...(scheme === "file" ? [{ scheme, language: "yaml" }] : []),
]);

function setting(name: string): unknown {
  return vscode.workspace.getConfiguration("memlint").get(name);
}

function succeeds(command: string, args: string[]): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { timeout: SECONDS * 1000, env: safeEnvironment(process.env) };
    execFile(command, args, options, (error) => resolve(error === null));
  });
}

/** The running server. Starts and stops follow each other, however quickly they are asked for. */
class Server {
  readonly footprints = new Footprints();
  private client: LanguageClient | undefined;
  private work: Promise<void> = Promise.resolve();

  constructor(
    private readonly output: vscode.LogOutputChannel,
    private readonly changed: () => void,
  ) {}

  restart(): Promise<void> {
    return this.queue(async () => {
      await this.halt();
      await this.start();
    });
  }

  stop(): Promise<void> {
    return this.queue(() => this.halt());
  }

  /** Tells the server that settings changed. */
  async configure(): Promise<void> {
    await this.work;
    const settings = { memlint: serverOptions(setting) };
    await this.client?.sendNotification("workspace/didChangeConfiguration", { settings });
  }

  private queue(task: () => Promise<void>): Promise<void> {
    this.work = this.work.then(task).catch((error: unknown) => {
      this.output.error(String(error));
    });
    return this.work;
  }

  private async halt(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.footprints.forget();
    this.changed();
    await client?.dispose();
  }

  private async start(): Promise<void> {
    const interpreter = await chosenInterpreter();
    const interpreters = interpreter === undefined ? ["python3", "python"] : [interpreter];
    const launch = await findLaunch(String(setting("path") ?? ""), interpreters, succeeds);
    if (launch === undefined) {
      void vscode.window.showErrorMessage(whatToInstall(interpreter));
      return;
    }
    this.output.info(`starting ${[launch.command, ...launch.args].join(" ")}`);
    const options: LanguageClientOptions = {
      documentSelector: DOCUMENTS,
      initializationOptions: serverOptions(setting),
      outputChannel: this.output,
    };
    const run = { ...launch, options: { env: safeEnvironment(process.env) } };
    this.client = new LanguageClient("memlint", "memlint", run, options);
    this.client.onNotification("memlint/footprint", (what: { uri: string; text: string }) => {
      this.footprints.take(what.uri, what.text);
      this.changed();
    });
    await this.client.start();
  }
}

/** Returns the names of the GPUs in the extension's own description of the setting. */
function knownGpus(context: vscode.ExtensionContext): string[] {
  const described = context.extension.packageJSON.contributes.configuration.properties;
  return described["memlint.gpu"].anyOf[0].enum;
}

async function chooseGpu(names: string[]): Promise<void> {
  const other = "Another name…";
  const none = "None";
  const picked = await vscode.window.showQuickPick([...names, other, none], {
    title: "The GPU that scripts are to fit",
  });
  const written =
    picked === other
      ? await vscode.window.showInputBox({ title: "The GPU's name, such as rtx4090-24gb" })
      : picked;
  if (written !== undefined) {
    const target =
      vscode.workspace.workspaceFolders === undefined
        ? vscode.ConfigurationTarget.Global
        : vscode.ConfigurationTarget.Workspace;
    const value = written === none || written === "" ? undefined : written;
    await vscode.workspace.getConfiguration("memlint").update("gpu", value, target);
  }
}

function fixAll(): Thenable<unknown> {
  const wanted = { kind: "source.fixAll.memlint", apply: "first" };
  return vscode.commands.executeCommand("editor.action.codeAction", wanted);
}

function openDocument(): string | undefined {
  const notebook = vscode.window.activeNotebookEditor?.notebook.uri;
  return (notebook ?? vscode.window.activeTextEditor?.document.uri)?.toString();
}

function statusBar(footprints: () => Footprints): { item: vscode.StatusBarItem; show: () => void } {
  const item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 100);
  item.name = "memlint: peak of GPU memory";
  item.command = "memlint.chooseGpu";
  const over = new vscode.ThemeColor("statusBarItem.warningBackground");
  const show = (): void => {
    const what = footprints().of(openDocument());
    if (what === undefined) {
      item.hide();
      return;
    }
    item.text = what.text;
    item.tooltip = what.tooltip;
    item.backgroundColor = what.isOver ? over : undefined;
    item.show();
  };
  return { item, show };
}

let running: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("memlint", { log: true });
  const bar = statusBar(() => server.footprints);
  const server = new Server(output, bar.show);
  running = server;
  context.subscriptions.push(
    output,
    bar.item,
    vscode.window.onDidChangeActiveTextEditor(bar.show),
    vscode.window.onDidChangeActiveNotebookEditor(bar.show),
    vscode.commands.registerCommand("memlint.restart", () => server.restart()),
    vscode.commands.registerCommand("memlint.fixAll", fixAll),
    vscode.commands.registerCommand("memlint.chooseGpu", () => chooseGpu(knownGpus(context))),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("memlint.path")) {
        return server.restart();
      }
      return event.affectsConfiguration("memlint") ? server.configure() : undefined;
    }),
    await onInterpreterChange(() => void server.restart()),
  );
  await server.restart();
}

export async function deactivate(): Promise<void> {
  await running?.stop();
}
