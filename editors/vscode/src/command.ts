/** How the server is started. Knows nothing of VS Code, so that it can be tested without it. */

export interface Command {
  command: string;
  args: string[];
}

export const PACKAGE = "torch-memlint[server]";

/** Whether a command ends with status 0. */
export type Runs = (command: string, args: string[]) => Promise<boolean>;

/**
 * The command of the settings; else the interpreter that the user has chosen, if memlint's server
 * can be imported there; else uvx. Undefined where none of them is to be had.
 */
export async function chooseCommand(
  configured: string[],
  interpreter: string | undefined,
  runs: Runs,
): Promise<Command | undefined> {
  if (configured.length > 0) {
    return { command: configured[0], args: configured.slice(1) };
  }
  if (interpreter && (await runs(interpreter, ["-c", "import memlint.server, pygls"]))) {
    return { command: interpreter, args: ["-m", "memlint", "server"] };
  }
  if (await runs("uvx", ["--version"])) {
    return { command: "uvx", args: ["--from", PACKAGE, "memlint", "server"] };
  }
  return undefined;
}

/** The settings that the server takes; what is empty is left to the project's configuration. */
export function serverSettings(get: (name: string) => unknown): Record<string, unknown> {
  const settings: Record<string, unknown> = {};
  for (const name of ["target", "gpu", "assume", "select", "ignore"]) {
    const value = get(name);
    if ((typeof value === "string" || Array.isArray(value)) && value.length > 0) {
      settings[name] = value;
    }
  }
  for (const name of ["runtime", "prices"]) {
    if (get(name) === false) {
      settings[name] = false;
    }
  }
  return settings;
}

/** The status bar's words: `train.py: peak 23.4 GiB ...` becomes `peak 23.4 GiB`. */
export function shortFootprint(text: string): string {
  return /peak [^ ]+ GiB(?: [^(;]*\((?:fits|is tight on|does not fit) [^)]*\))?/.exec(text)?.[0] ?? "";
}
