// A language client that only remembers what it is told.

export const clients: LanguageClient[] = [];

export class LanguageClient {
  readonly sent: [string, unknown][] = [];
  readonly handlers: Record<string, (what: unknown) => void> = {};
  isRunning = false;

  constructor(
    readonly id: string,
    readonly name: string,
    readonly run: { command: string; args: string[]; options: { env: NodeJS.ProcessEnv } },
    readonly options: { initializationOptions: unknown; documentSelector: unknown[] },
  ) {
    clients.push(this);
  }

  onNotification(method: string, handler: (what: unknown) => void): void {
    this.handlers[method] = handler;
  }

  async start(): Promise<void> {
    this.isRunning = true;
  }

  async dispose(): Promise<void> {
    this.isRunning = false;
  }

  async sendNotification(method: string, what: unknown): Promise<void> {
    this.sent.push([method, what]);
  }
}
