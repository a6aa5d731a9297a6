// The interpreter that the Python extension has chosen, if that extension is there.

import * as vscode from "vscode";

interface Environments {
  getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
  resolveEnvironment(path: {
    path: string;
  }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
}

async function environments(): Promise<Environments | undefined> {
  const extension = vscode.extensions.getExtension<{ environments?: Environments }>(
    "ms-python.python",
  );
  return extension === undefined ? undefined : (await extension.activate())?.environments;
}

/** Returns the chosen interpreter; undefined without the Python extension, or if none is chosen. */
export async function chosenInterpreter(): Promise<string | undefined> {
  const api = await environments();
  if (api === undefined) {
    return undefined;
  }
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const environment = await api.resolveEnvironment(api.getActiveEnvironmentPath(folder));
  return environment?.executable.uri?.fsPath;
}

/** Calls `changed` whenever another interpreter is chosen. */
export async function onInterpreterChange(changed: () => void): Promise<vscode.Disposable> {
  const api = await environments();
  return api?.onDidChangeActiveEnvironmentPath(changed) ?? { dispose: () => undefined };
}
