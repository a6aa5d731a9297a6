"""``python -m tools.playground [FOLDER]`` builds the playground alone (needs npm)."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.playground import build

if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/playground"))
