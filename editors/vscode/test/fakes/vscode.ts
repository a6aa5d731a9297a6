// As much of VS Code as the extension uses, for tests: they set what is chosen and read what is shown.

type Listener = (what: any) => unknown;

class Emitter {
  private listeners: Listener[] = [];
  readonly event = (listener: Listener) => {
    this.listeners.push(listener);
    return { dispose: () => undefined };
  };
  readonly fire = (what?: unknown) => Promise.all(this.listeners.map((each) => each(what)));
}

export const fake = {
  settings: {} as Record<string, unknown>,
  python: undefined as string | undefined,
  picks: [] as (string | undefined)[],
  errors: [] as string[],
  log: [] as string[],
  commands: {} as Record<string, () => unknown>,
  executed: [] as unknown[][],
  bar: { text: "", tooltip: "", visible: false, backgroundColor: undefined as unknown },
  interpreterChanged: new Emitter(),
  editorChanged: new Emitter(),
  settingsChanged: new Emitter(),
};

const uri = (text: string) => ({ toString: () => text, fsPath: text });

export const window = {
  activeTextEditor: undefined as unknown,
  activeNotebookEditor: undefined as unknown,
  onDidChangeActiveTextEditor: fake.editorChanged.event,
  onDidChangeActiveNotebookEditor: fake.editorChanged.event,
  createOutputChannel: () => ({
    info: (line: string) => fake.log.push(line),
    error: (line: string) => fake.log.push(line),
    dispose: () => undefined,
  }),
  createStatusBarItem: () =>
    Object.assign(fake.bar, {
      show: () => (fake.bar.visible = true),
      hide: () => (fake.bar.visible = false),
    }),
  showErrorMessage: async (message: string) => void fake.errors.push(message),
  showQuickPick: async () => fake.picks.shift(),
  showInputBox: async () => fake.picks.shift(),
};

export function show(address: string | undefined): Promise<unknown[]> {
  window.activeTextEditor = address === undefined ? undefined : { document: { uri: uri(address) } };
  return fake.editorChanged.fire();
}

export const workspace = {
  workspaceFolders: [{ uri: uri("file:///project") }],
  getConfiguration: (section: string) => ({
    get: (name: string) => fake.settings[`${section}.${name}`],
    update: async (name: string, value: unknown) => {
      fake.settings[`${section}.${name}`] = value;
    },
  }),
  onDidChangeConfiguration: fake.settingsChanged.event,
};

export const commands = {
  registerCommand: (name: string, command: () => unknown) => {
    fake.commands[name] = command;
    return { dispose: () => undefined };
  },
  executeCommand: async (...what: unknown[]) => void fake.executed.push(what),
};

export const extensions = {
  getExtension: () =>
    fake.python === undefined
      ? undefined
      : {
          activate: async () => ({
            environments: {
              getActiveEnvironmentPath: () => ({ path: fake.python }),
              resolveEnvironment: async (chosen: { path: string }) => ({
                executable: { uri: uri(chosen.path) },
              }),
              onDidChangeActiveEnvironmentPath: fake.interpreterChanged.event,
            },
          }),
        },
};

export class ThemeColor {
  constructor(readonly id: string) {}
}
export const StatusBarAlignment = { Left: 1, Right: 2 };
export const ConfigurationTarget = { Global: 1, Workspace: 2 };
