"""Tests of the module. They run without a service and without WebAssembly."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
subprocess.run([sys.executable, ROOT / "build.py", "--bindings"], check=True)
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "build/bindings")]
