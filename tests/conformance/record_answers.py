"""Ask a real API server what is in ``requests_table.py`` and keep its answers: ``KUBECONFIG [GROUP...]``."""

import json
import sys
from pathlib import Path

from requests_table import GROUPS
from servers import Real
from test_requests import FOLDER, play

if __name__ == "__main__":
    server = Real(sys.argv[1])
    version = server.ask("GET", "/version")[2]["gitVersion"]
    for name in sys.argv[2:] or GROUPS:
        kept = {"source": f"answers of kube-apiserver {version}", "answers": play(server, name, GROUPS[name])}
        text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).replace('},{"about"', '},\n{"about"')
        Path(FOLDER / f"{name}.json").write_text(text + "\n")
