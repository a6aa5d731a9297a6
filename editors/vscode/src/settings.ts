// What the editor's settings say, as the server takes it.

export type Options = Record<string, string | boolean | string[]>;

const NAMES = ["target", "gpu", "assume", "select", "ignore", "runtime", "prices"] as const;

/** Returns the settings that are set. What is not set is left to the project's configuration. */
export function serverOptions(setting: (name: string) => unknown): Options {
  const options: Options = {};
  for (const name of NAMES) {
    const value = setting(name);
    const isText = typeof value === "string" && value.trim() !== "";
    const isList = Array.isArray(value) && value.length > 0;
    if (isText || isList || typeof value === "boolean") {
      options[name] = value as string | boolean | string[];
    }
  }
  return options;
}
