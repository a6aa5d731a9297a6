// The status bar: the peak of the script that is open, from the server's sentence about it.

export interface Shown {
  text: string;
  tooltip: string;
  isOver: boolean;
}

/** Returns what the status bar shows; undefined where the script's run is not known. */
export function shown(sentence: string): Shown | undefined {
  const peak = /: peak (.+? GiB)/.exec(sentence);
  if (peak === null) {
    return undefined;
  }
  const asItIs = sentence.split(";", 1)[0] ?? "";
  return {
    text: `$(chip) ${peak[1]}`,
    tooltip: `memlint: ${sentence}`,
    isOver: asItIs.includes("does not fit"),
  };
}

/** The sentences of all documents that the server has spoken of. */
export class Footprints {
  private readonly sentences = new Map<string, string>();

  take(uri: string, text: string): void {
    this.sentences.set(uri, text);
  }

  forget(): void {
    this.sentences.clear();
  }

  of(uri: string | undefined): Shown | undefined {
    return uri === undefined ? undefined : shown(this.sentences.get(uri) ?? "");
  }
}
