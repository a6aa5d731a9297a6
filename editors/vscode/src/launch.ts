// Decides how the server is started: by a path from the settings, by the interpreter, or by uvx.

export interface Launch {
  command: string;
  args: string[];
}

/** Runs a command; true if it exits with 0. */
export type Try = (command: string, args: string[]) => Promise<boolean>;

export const PACKAGE = "torch-memlint[server]";
// Whether the server is there: another project on the index is called memlint, too.
const PROBE = "import memlint.server.protocol";

/** Returns the command of the server; undefined where neither memlint nor uvx is there. */
export async function findLaunch(
  path: string,
  interpreters: readonly string[],
  succeeds: Try,
): Promise<Launch | undefined> {
  if (path !== "") {
    return { command: path, args: ["server"] };
  }
  for (const python of interpreters) {
    if (await succeeds(python, ["-c", PROBE])) {
      return { command: python, args: ["-m", "memlint", "server"] };
    }
  }
  if (await succeeds("uvx", ["--version"])) {
    return { command: "uvx", args: ["--from", PACKAGE, "memlint", "server"] };
  }
  return undefined;
}

/** Returns the message for someone who has neither memlint nor uvx. */
export function whatToInstall(interpreter: string | undefined): string {
  const where = interpreter === undefined ? "a Python environment" : interpreter;
  return (
    `memlint's server was not found. Install it into ${where} (pip install '${PACKAGE}'), ` +
    "or install uv, which fetches it when it is needed."
  );
}

/** Returns the environment of the server: files of the workspace must not hide memlint's own. */
export function safeEnvironment(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...environment, PYTHONSAFEPATH: "1" };
}
